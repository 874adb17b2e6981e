/* What a file call has in its process: the request, the workspace's folder, its input and output. It may
 * block, use memory and, where the process is its own, die: nobody else is harmed. */
#ifndef AGENT_FILES_CALL_H
#define AGENT_FILES_CALL_H

#include "lib/agent/files/path.h"
#include "lib/agent/launch.h"
#include "lib/base/buffer.h"
#include "lib/base/error.h"

#include <stdint.h>

struct instance;
struct file_call_context {
    const json_t *request; /* hostile */
    const struct launch_rules *rules;
    struct path_root root;
    int input, output; /* pipes, blocking; input -1 where the process is shared */
    int reply_fd;
    int turns;         /* turn.h; -1 where the process is shared */
    struct instance *instance; /* of a shared process */
    bool much_follows; /* said before file_call_reply: the output is long, and waits for a place */
};

/* 0 = *ret is the reply (stolen), -1 = err is; 1 = it was sent already. A failure after file_call_reply makes
 * what came one that is not whole. */
typedef int file_call_run(struct file_call_context *call, json_t **ret, struct error *err);
file_call_run file_read, file_write, file_list, file_make_directory, file_move, file_remove, file_download,
    file_upload, file_edit, file_search, file_grep, file_watch;

/* Sends the reply before the output. */
void file_call_reply(struct file_call_context *call, const json_t *ret, const struct error *err);
/* All of the input, at most limit bytes (else ERROR_TOO_LARGE); it must be as long as the request's "length"
 * says, so that one that was cut is never taken for the whole. */
int file_call_input(struct file_call_context *call, size_t limit, struct buffer *ret, struct error *err);

/* Members of the request. */
const char *file_call_path(const struct file_call_context *call, const char *name); /* "" where it is none */
int64_t file_call_integer(const struct file_call_context *call, const char *name, int64_t otherwise);
int64_t file_call_bounded(const struct file_call_context *call, const char *name, int64_t otherwise,
                          int64_t least, int64_t most);
bool file_call_flag(const struct file_call_context *call, const char *name);

#endif
