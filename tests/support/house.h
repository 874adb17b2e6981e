/* A state directory with real keepers and wardens for tests, without workers: the test program itself is
 * started again as `keep` and `warden`, with a dispatcher that exposes what keeper.h offers to operations.
 * Failures abort the test. */
#ifndef TESTS_SUPPORT_HOUSE_H
#define TESTS_SUPPORT_HOUSE_H

#include "lib/base/buffer.h"
#include "lib/config/config.h"
#include "lib/store/events.h"
#include "lib/store/state.h"

#include <check.h>
#include <sys/types.h>

struct house {
    char dir[64];
    struct config *config;
    struct state *state;
    struct events_cache *events;
};
/* Call first in main: where the program was started as keep or warden, that runs and its exit status is
 * returned; else -1. */
int house_main(int argc, char **argv);
/* The whole of a main: that, then a suite of these tests, 60 s each, whose keepers are quiet. */
int house_run_tests(int argc, char **argv, const char *name, const TTest *const *tests, size_t count);

char *
house_mount_point(void); /* a path that is unmounted and removed at the end of the program; caller frees */

/* parent: NULL = a folder of this run. settings: "NAME=VALUE", NULL-ended, may be NULL. */
void house_open(struct house *h, const char *parent, const char *const *settings);
void house_close(struct house *h); /* ends what is left of it and removes it */

/* A record as a worker would make it. spec members are merged over the defaults (timeout_seconds 3600, idle
 * 900); NULL = none. */
json_t *house_record(char id[static ID_SIZE], json_t *spec);

struct line {
    pid_t pid;
    json_t *answer; /* {"ret" | "existing" | "error"} */
    double ms;
};
/* Starts `keep` itself, without a warden. record NULL: of an existing workspace. */
struct line house_keep(struct house *h, const char *id, json_t *record);
pid_t house_start_warden(struct house *h); /* waits until it answers */
/* The keeper's exit status, or -1 after timeout_ms. */
int house_wait(pid_t pid, int timeout_ms);
json_t *house_stored(struct house *h, const char *id); /* NULL: no record */
bool house_wait_state(struct house *h, const char *id, const char *state, int timeout_ms);

/* ---- one connection to a keeper or the warden ---- */
struct talk;
struct talk *talk_open(struct house *h,
                       const char *leaf); /* "ws-….sock", "warden.sock"; NULL: nobody listens */
void talk_close(struct talk *t);
/* The answer: {"ret": ...} or {"error": ...}; NULL: the connection ended. Steals message. */
json_t *talk_ask(struct talk *t, json_t *message);
uint32_t talk_send(struct talk *t, json_t *message); /* without waiting: its number */
json_t *talk_wait(struct talk *t, uint32_t number);
/* An operation of the test dispatcher. */
json_t *talk_call(struct talk *t, const char *operation, json_t *in);
json_t *talk_call_keyed(struct talk *t, const char *operation, json_t *in, const char *key,
                        const char *digest);
uint32_t talk_subscribe(struct talk *t, const char *exec_id);
/* Waits until at least one NOTIFY came for it since the last call. */
bool talk_notified(struct talk *t, uint32_t number, int timeout_ms);
size_t talk_notices(const struct talk *t, uint32_t number); /* so far */
bool talk_farewell(const struct talk *t); /* the keeper has said that it answered all that it took in */
int talk_error(const json_t *answer);     /* its code, 0 = none */

/* Starts a command; fails the test where that does not work. extra: further members or NULL. */
void talk_start(struct talk *t, const char *command, json_t *extra, char exec_id[static ID_SIZE]);

/* ---- what the store says of an exec ---- */
struct told {
    struct exec_head head;
    struct buffer out, err, late, errors, exit; /* exit: the members of the exit event */
    size_t events, exits;
    bool gap;      /* seq was not contiguous from first_seq on */
    bool replaced; /* a character was cut: an event of valid text is marked binary */
};
void told_read(struct house *h, const char *id, const char *exec_id, struct told *ret);
void told_clear(struct told *t);
/* Reads until the exec has its final event. */
bool told_wait(struct house *h, const char *id, const char *exec_id, struct told *ret, int timeout_ms);
struct exec_head house_head(struct house *h, const char *id, const char *exec_id);

#endif
