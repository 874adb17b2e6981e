/* What the suites on the keeper share: one live workspace of a real keeper, with a connection to it. */
#ifndef TESTS_KEEPER_CASE_H
#define TESTS_KEEPER_CASE_H

#include "lib/base/ids.h"
#include "tests/support/house.h"

struct live {
    struct house house;
    char ws[ID_SIZE];
    struct line keeper;
    struct talk *talk;
};
extern struct live live; /* of the running test */

/* spec (stolen) and settings as house_record and house_open have them; each may be NULL. */
void live_begin(json_t *spec, const char *const *settings);
void live_end(void);
void live_keep_again(void); /* its keeper has ended: a new one, and a connection to it */
struct talk *
live_connect(const char *id); /* another connection to a workspace's keeper; NULL: nobody listens */
/* Runs a command to its final event; extra as talk_start has it. */
void live_run(const char *command, json_t *extra, struct told *told);
bool live_is_pruned(const char *exec_id); /* its log has gone */
void live_wait_output(const char *id, struct told *told); /* until a command has written something */
json_t *live_request(const char *operation, json_t *in);  /* as a worker would send it; in is stolen */

#endif
