/* File calls of the keeper, as PID 1 sees them: each runs in a process of its own, and this side only relays.
 * A call's frames, on its stream:
 *   REQUEST {"op": "file", "call": name, ...} -> DATA and END of channel 0, what the call reads; <- one
 * REPLY, DATA and END of channel 1, what it writes, then CLOSE, whose one byte is 1 where the call did not
 * end by itself: then what came is not whole. The keeper's own CLOSE ends a call early. */
#ifndef AGENT_FILES_SERVICE_H
#define AGENT_FILES_SERVICE_H

#include "lib/agent/launch.h"
#include "lib/agent/loop.h"
#include "lib/wire/channel.h"

#include <sys/types.h>

struct files;
struct files *files_new(struct loop *loop, struct channel *channel, const struct launch_rules *rules);
void files_free(struct files *files);

void files_request(struct files *files, uint32_t number, const json_t *request);
/* false: no call has this number. */
bool files_frame(struct files *files, const struct frame *frame, const char *data, size_t length);
bool files_knows(const struct files *files, uint32_t number);
/* A child of the agent changed: true where it was a call's process. */
bool files_child(struct files *files, pid_t pid, int status);
bool files_owns(const struct files *files, pid_t pid);
/* Once a turn: credit may have come, calls may be over. */
void files_settle(struct files *files);

#endif
