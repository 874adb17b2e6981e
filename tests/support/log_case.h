/* What the suites on pages and outputs share: the log of one exec in a real events environment, filled as a
 * keeper does. */
#ifndef TESTS_LOG_CASE_H
#define TESTS_LOG_CASE_H

#include "lib/op/page.h"
#include "lib/store/events.h"

#define KEPT_WORKSPACE "ws-0123456789abcdef0123456789abcdef"

struct kept {
    struct events_writer *writer;
    struct events_reader *reader;
    struct exec_head head;
};
extern struct kept kept;      /* of the running test */
extern char kept_directory[]; /* the state directory */
void kept_set_up(void);
void kept_tear_down(void);

void kept_begin(void); /* another exec, which kept.head tells of from now on */
void kept_add(enum event_type type, unsigned flags, const void *data, size_t length); /* one event */
void kept_write(enum event_type type, const char *data, size_t length);
void kept_end(void);

/* Kinds 0 to 7 are what encodes badly: zeros, quotes, escapes, wide characters, chance. Any other: letters.
 */
void kept_fill(char *data, size_t length, int kind);

struct page_request kept_request(uint64_t cursor); /* of a page of usual size */
/* The page, held against its declared result and its bound. */
json_t *kept_render(const struct page_request *request, struct page *page);
bool kept_says(const json_t *value, const char *name, const char *wanted);

#endif
