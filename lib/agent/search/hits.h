/* What a search for content found, file by file, in any order; a page of it in the order of paths. Keeps
 * little more than a page needs, however much is found. Pure. */
#ifndef SEARCH_HITS_H
#define SEARCH_HITS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct hits_rules {
    size_t limit;        /* matching lines of a page */
    size_t max_per_file; /* more of one file are never shown */
    int64_t context;     /* lines before and behind each that go with it */
    size_t room;         /* about how long the page may be */
    bool twice;          /* that room is for two copies */
    const char *at_path; /* in this file ... */
    int64_t at_line;     /* ... lines before this one were in an earlier page */
};

struct hits;
struct hits *hits_new(const struct hits_rules *rules); /* which must live as long */
void hits_free(struct hits *hits);

/* One file: begin, its lines in order, end. */
struct hit {
    int64_t line;
    bool matched;
    int64_t column;   /* of the first match, in bytes, from 1 on */
    int64_t count;    /* matches in the line */
    const char *data; /* what is shown of it */
    size_t length;
    uint64_t before, after; /* bytes of the line that are not */
};
void hits_begin(struct hits *hits, const char *path, size_t length);
void hits_add(struct hits *hits, const struct hit *hit);
void hits_end(struct hits *hits, bool keep); /* keep false: forget the file */

/* All of from, which is empty then. */
void hits_move(struct hits *from, struct hits *to);
/* Nothing that is still to be found in later paths could stand in this page. */
bool hits_is_full(struct hits *hits);

/* [{"path", "path_base64", "matches", "more", "lines": [{"line", "matched", "column", "count", "text",
 * "text_base64", "clipped"}]}]. *ret_next_path (may become NULL: all is in it) and line: the first match that
 * is not. Lives as long as hits. */
json_t *hits_page(struct hits *hits, const char **ret_next_path, int64_t *ret_next_line,
                  int64_t *ret_matches);

#endif
