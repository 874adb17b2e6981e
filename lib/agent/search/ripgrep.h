/* Reads what `rg --json` writes: one JSON object a line, of which some say what was found. The bytes come
 * from a sandbox and are hostile: lines may have any length (a line of a file stands in one), and only what
 * is bounded here is kept of them. Format: docs.rs/grep-printer, struct JSON. */
#ifndef SEARCH_RIPGREP_H
#define SEARCH_RIPGREP_H

#include "lib/base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

#define RIPGREP_PATH_MAX  8192
#define RIPGREP_LINE_MAX  (64u << 10) /* of the beginning of a file's line */
#define RIPGREP_MATCH_MAX 1024        /* of the beginning of a match */

enum ripgrep_type {
    RIPGREP_OTHER,
    RIPGREP_BEGIN,
    RIPGREP_MATCH,
    RIPGREP_CONTEXT,
    RIPGREP_END,
    RIPGREP_SUMMARY
};

/* What one message said; 0, -1 or empty where it did not. Lives as long as the call it is given to. */
struct ripgrep_message {
    enum ripgrep_type type;
    struct buffer path;
    struct buffer line; /* with its line end */
    uint64_t line_length;
    char before_last, last;      /* its last two bytes */
    int64_t line_number, offset; /* offset: of the line in the file, -1 = not told */
    uint64_t submatches;
    int64_t start, end;  /* of the first match in the line */
    struct buffer match; /* it */
    uint64_t match_length;
    int64_t binary_offset; /* of RIPGREP_END; -1 = it is text */
};

struct ripgrep;
typedef void ripgrep_take(void *user, const struct ripgrep_message *message);
struct ripgrep *ripgrep_new(ripgrep_take *take, void *user);
void ripgrep_free(struct ripgrep *r);
/* false: it is not what rg writes, now and ever after. */
bool ripgrep_feed(struct ripgrep *r, const char *data, size_t length);
/* Nothing is begun that did not end. */
bool ripgrep_is_whole(const struct ripgrep *r);

#endif
