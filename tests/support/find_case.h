/* What the suites on searches of a real agent share: both searches, what they find as text, and trees. */
#ifndef TESTS_FIND_CASE_H
#define TESTS_FIND_CASE_H

#include "lib/base/buffer.h"
#include "tests/support/file_case.h"

void finds_tear_down(void); /* also of folders that are deep or closed; set up by files_set_up */

/* Calls with these members, as json_pack has them; what is returned lives as long as the peer. */
const json_t *search(const char *format, ...);
const json_t *grep(const char *format, ...); /* with what the operation fills in where nothing is said */
const char *grep_refused(const char *format, ...);

const char *found_text(const json_t *ret, const char *name); /* "" = no text */
/* Exact paths of what was found, a line each (a newline in one is shown as \n). */
void append_path(struct buffer *out, const json_t *item); /* the bytes of one, no line */
void append_paths(struct buffer *out, const json_t *list);
void expect_found(const char *pattern, const char *paths);
/* "path:line:text" a line each; '-' where the line is context. */
void append_lines(struct buffer *out, const json_t *ret);
void expect_lines(const json_t *ret, const char *lines);

void in_workspace(const char *command);
void make_tree(unsigned seed, int files); /* odd names, three lines in each file */

#endif
