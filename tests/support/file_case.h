/* What the suites on file calls of a real agent share: the calls, as the keeper's end of the channel sends
 * them, and the workspace's folder, seen from outside. */
#ifndef TESTS_FILE_CASE_H
#define TESTS_FILE_CASE_H

#include "tests/support/agent_case.h"

#include <stdarg.h>

extern int folder_fd; /* the workspace of the running test */
void files_set_up(void);
void files_tear_down(void);

/* A call and its members, as json_pack has them. */
json_t *file_message(const char *call, const char *format, ...);
json_t *file_message_of(const char *call, const char *format, va_list arguments);
/* Messages are stolen; what is returned lives as long as the peer. */
struct peer_exec *file_begin(json_t *message);
const json_t *file_finish(struct peer_exec *call); /* the reply */
const json_t *file_ask(json_t *message);           /* the reply's "ret"; fails the test where there is none */
const json_t *file_error(json_t *message);         /* its "error", likewise */
const char *file_refusal(const json_t *reply);     /* the error's text */
void file_refused(json_t *message, const char *contains);
const json_t *file_read_lines(const char *path, int offset, int limit);
/* The reply to a call that takes content. */
const json_t *file_write_reply(const char *content, size_t length, json_t *message);
const json_t *file_written(const char *path, const char *content, bool create_only);

const char *ret_text(const json_t *ret, const char *name); /* "(none)" = no text */
long long ret_number(const json_t *ret, const char *name);
bool ret_flag(const json_t *ret, const char *name);

void folder_put(const char *name, const char *data, size_t length);
void folder_put_text(const char *name, const char *data);
void folder_expect(const char *name, const char *data);
bool folder_has(const char *name);       /* links are not followed */
size_t folder_entries(const char *name); /* temporary files count too */

#endif
