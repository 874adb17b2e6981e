/* What the suites on watches through a web server share: the operations, and what was told, as lines. */
#ifndef TESTS_WATCH_CASE_H
#define TESTS_WATCH_CASE_H

#include "lib/base/buffer.h"
#include "tests/support/workspace_case.h"

/* ---- of the workspace of the running test; what is returned is the caller's ---- */
json_t *watch_start(json_t *body, char id[static 40]); /* body is stolen */
json_t *watch_page(const char *fw, long long cursor, int wait_seconds);
json_t *watch_status(const char *fw);
json_t *watch_cancel(const char *fw);
void watch_run(const char *command); /* a command, which is to succeed */
void watch_told_once(const char *fw, const char *path);

/* ---- what was told, as lines "create a/b", "remove a -> b" ---- */
struct heard {
    char fw[40];
    long long cursor;
    struct buffer lines;
    char state[16];
    size_t events;
};
void heard_begin(struct heard *t, json_t *body);
void heard_end(struct heard *t);
void heard_read(struct heard *t, int wait_seconds);
bool heard_has(struct heard *t, const char *line);
void heard_wait(struct heard *t, const char *line);
size_t heard_count(struct heard *t, const char *line);

#endif
