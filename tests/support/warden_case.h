/* What the suites on the warden share: a warden of a house, with a connection to it, and workspaces whose
 * keepers it started. */
#ifndef TESTS_WARDEN_CASE_H
#define TESTS_WARDEN_CASE_H

#include "tests/support/house.h"

/* Of the running test. */
extern struct house desk_house;
extern pid_t desk_warden;
extern struct talk *desk;                     /* the connection to the warden */
void desk_begin(const char *const *settings); /* as house_open has them */
void desk_end(void);
void desk_kill(void);        /* kill -9, and no connection any more */
void desk_begin_again(void); /* another warden, and a connection to it */

json_t *desk_start_message(const char *id);
json_t *
desk_record(json_t *answer); /* the record told in an answer, which keeps it; fails where there is none */
void desk_create(char id[static ID_SIZE]); /* a new workspace, which runs */
void desk_start(const char *id);

struct talk *kept_connect(const char *id);                             /* to its keeper; the caller's */
extern char kept_exec_id[ID_SIZE];                                     /* of the last run */
void kept_run(const char *id, const char *command, struct told *told); /* to its end */
void kept_writes(const char *id, const char *command, const char *out);
/* A command that writes "up", and "kept" to a file, and goes on. */
void kept_begin_exec(const char *id, char exec_id[static ID_SIZE]);
void kept_stop(const char *id);
int kept_keeper(const char *id); /* a pidfd, the caller's */
void kept_kill_keeper(const char *id);

#endif
