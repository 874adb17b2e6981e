/* The tables of what is recognised: words, lines of known kinds, and parts of an output that stay whole. */
#ifndef TEXT_ROWS_H
#define TEXT_ROWS_H

#include <stdbool.h>
#include <stddef.h>

/* What a line is to a reader who looks for what went wrong. */
enum line_level {
    LEVEL_NOTHING,
    LEVEL_NOTE,    /* out of the ordinary: it stays */
    LEVEL_WARNING, /* it stays with what belongs to it */
    LEVEL_FAILURE,
};

enum line_kind {
    KIND_PLAIN,
    KIND_BLANK,
    KIND_PASS,
    KIND_SKIP, /* a test that did not run, or of which no more was expected than that it fails */
    KIND_PROGRESS,
    KIND_INSTALL,
    KIND_BUILD,
    KIND_DEPRECATION,
    KIND_LISTING,
    KIND_NAME, /* one that is a listing only among many */
    KIND_REPEATED,
    KIND_FAILURE, /* in rows only: a plain line of LEVEL_FAILURE */
    KINDS,
};

struct kind_row {
    const char *one, *many;
};
extern const struct kind_row kind_rows[KINDS];

/* A whole word, in any case, that is no part of a path or an identifier. A word before or after the number 0
 * ("0 errors", "failed: 0") says nothing. */
struct word_row {
    const char *word;
    enum line_level level;
};
extern const struct word_row word_rows[];
extern const size_t word_rows_count;

/* How much it means that a line matches. */
enum row_trust {
    LOOSE, /* it is of the kind where lines of its shape are many, and no word in it says otherwise */
    FAIR,  /* where no word in it says otherwise */
    SURE,  /* whatever words are in it (the name of a test that passed) */
};

/* A line of a kind. key: a word (lower case letters) that the line must have; NULL = the pattern's first byte
 * is what the line begins with. */
struct pattern_row {
    const char *key, *pattern;
    enum line_kind kind;
    enum row_trust trust;
};
extern const struct pattern_row pattern_rows[];
extern const size_t pattern_rows_count;

/* From a line that matches start on everything stays, until a line that matches an end (which is then looked
 * at like any other), or the end of the output. */
struct section_row {
    const char *start;
    const char *ends[4];
};
extern const struct section_row section_rows[];
extern const size_t section_rows_count;

#endif
