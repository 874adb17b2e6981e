/* The process that a file call runs in: forked from PID 1, with three pipes, the turns of all calls and
 * nothing else of it. */
#ifndef AGENT_FILES_PROCESS_H
#define AGENT_FILES_PROCESS_H

#include "lib/agent/files/call.h"
#include "lib/agent/launch.h"

#include <sys/types.h>

/* Calls of each kind have places of their own: long ones do not keep short ones waiting. A download begins as
 * a look, as all of them may be over at once; where FILE_REPLY_MUCH follows, it is parked until it has a
 * place among the long ones. All watches are in one process (host.h). */
enum { FILE_SHORT, FILE_LOOK, FILE_DOWNLOAD, FILE_PARKED, FILE_UPLOAD, FILE_SEARCH, FILE_WATCH, FILE_PLACES };
#define FILE_REPLY_MUCH (1u << 31) /* in the length of a reply */

struct file_kind {
    const char *name;
    int place;      /* where it begins */
    int silence_ms; /* ended where nothing moves for so long; FILE_WATCH: before its reply */
    file_call_run *run;
};
const struct file_kind *file_kind_find(const char *name); /* NULL: there is none */

/* Our ends, non-blocking: what the call reads, what it writes, its reply (u32 length, JSON). */
struct file_pipes {
    int input, output, reply;
};
/* The process's pid; -1 = errno. */
pid_t file_process_start(const struct launch_rules *rules, int turns, const struct file_kind *kind,
                         const json_t *request, struct file_pipes *ret);

#endif
