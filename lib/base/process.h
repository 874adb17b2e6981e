/* Processes by identity: pid + start time + boot id, held as a pidfd. Never signal a bare pid. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include "lib/base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_identity {
    pid_t pid;
    uint64_t start_time; /* field 22 of /proc/PID/stat, proc_pid_stat(5) */
    char boot_id[37];
};

/* proc_pid_oom_score_adj(5): how soon the kernel ends it where memory is used up, from -1000 (never) to 1000; its
 * children get the same. Who has no privilege may only raise it. */
bool process_set_oom_score(pid_t pid, int score);
int process_identify(pid_t pid, struct process_identity *ret, struct error *err);
json_t *process_identity_to_json(const struct process_identity *identity);
int process_identity_from_json(const json_t *json, struct process_identity *ret);
/* pidfd of exactly that process, or -1 with errno ESRCH when it is gone. */
int process_open(const struct process_identity *identity);
int process_pidfd_open(pid_t pid);
int process_pidfd_signal(int pidfd, int signal_number);
/* 1 = ended, 0 = still there after timeout_ms. */
int process_pidfd_wait(int pidfd, int timeout_ms);
/* The letter of proc_pid_stat(5): 'R', 'S', 'D', 'T' ...; 0 = it is gone. */
char process_state(pid_t pid);
/* Blocks TERM, INT and HUP, ignores PIPE; the signalfd of the three, read by process_was_told_to_end, or -1.
 */
int process_catch_end(struct error *err);
bool process_was_told_to_end(int signal_fd); /* by TERM or INT; HUP is for others */
/* Back to default dispositions and an empty mask: for a child between fork and exec. */
void process_reset_signals(void);
/* Sets close-on-exec on every descriptor >= first. */
void process_close_on_exec_from(int first);
const char *process_signal_name(int signal_number); /* "TERM"; NULL where unknown */
int process_signal_number(const char *name);        /* "TERM", "SIGTERM", any case; -1 */

#endif
