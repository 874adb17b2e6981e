/* What the actors of the chaos test share: who is asked for which command, what was done to whom, what went
 * wrong. It lies in memory shared by the driver and its readers, since readers are killed without warning.
 * Also random numbers: each actor has a stream of its own, so that a seed gives everybody the same decisions
 * again. */
#ifndef CHAOS_LEDGER_H
#define CHAOS_LEDGER_H

#include "lib/base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What ends a workspace's run, counted before it is done. */
enum death { DEATH_KEEPER, DEATH_SANDBOX, DEATH_STOP, DEATHS };

enum place_state { PLACE_MAKING, PLACE_LIVE, PLACE_REMOVED };
struct place {
    char id[40];
    _Atomic int state;
    _Atomic unsigned deaths[DEATHS];
};

enum entry_state { ENTRY_NONE, ENTRY_RUNS, ENTRY_ENDED, ENTRY_REMOVED };
#define PIECES_MAX 64
struct entry {
    unsigned place; /* number in the ledger */
    char id[40];
    int kind;
    uint64_t seed;
    unsigned deaths_before[DEATHS];
    _Atomic int state;
    _Atomic unsigned pieces;   /* of input that were sent */
    _Atomic uint64_t doubtful; /* bit n: whether piece n arrived is not known */
};

#define PLACES_MAX  4096
#define ENTRIES_MAX 16384
#define FAILURES    16
struct ledger {
    uint64_t seed;
    char url[64], token[41];
    _Atomic bool closing; /* nothing new is begun */
    _Atomic bool closed;  /* readers end */
    _Atomic unsigned failures;
    char failure[FAILURES][800];
    _Atomic unsigned place_count, entry_count;
    _Atomic unsigned long pages, streams, events, tries, lost, whole, shortened;
    struct place places[PLACES_MAX];
    struct entry entries[ENTRIES_MAX];
};
extern struct ledger *ledger;

int ledger_make(void); /* returns a descriptor that a reader gets */
void ledger_attach(int fd);
struct place *ledger_place(const char *id); /* made where there is none: whoever meets it first */
struct place *entry_place(const struct entry *e);
struct entry *ledger_add_entry(struct place *place, int kind, uint64_t seed);
void fail(const char *format, ...) PRINTF_LIKE(1, 2); /* counted, told at the end; the storm ends early */
void tell(const char *format, ...) PRINTF_LIKE(1, 2); /* a line with the time since the start */

uint64_t random_next(uint64_t *state);
uint64_t random_seed_of(uint64_t seed, const char *actor, unsigned number);
unsigned random_below(uint64_t *state, unsigned bound);
unsigned random_between(uint64_t *state, unsigned low, unsigned high); /* both may come */

#endif
