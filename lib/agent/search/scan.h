/* JSON texts one behind the other, as they come, in pieces of any size: what is met is told at once, and
 * nothing is kept but where it stands. Strings and numbers may have any length. RFC 8259, of which it takes
 * a little more (what an unquoted word is, is left to who takes it). */
#ifndef SEARCH_SCAN_H
#define SEARCH_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#define SCAN_DEPTH_MAX 8 /* deeper is refused */

enum scan_event {
    SCAN_OBJECT, /* begins */
    SCAN_ARRAY,
    SCAN_CLOSE, /* the innermost of them ends; each text is an object */
    SCAN_KEY,   /* begins */
    SCAN_KEY_END,
    SCAN_STRING,
    SCAN_STRING_END,
    SCAN_WORD, /* a number, true, false, null */
    SCAN_WORD_END,
    SCAN_TEXT, /* data: more of the key, string (without escapes) or word that has begun */
};
typedef void scan_take(void *user, enum scan_event event, const char *data, size_t length);

struct scan {
    scan_take *take;
    void *user;
    /* The rest is its own, zero at first. */
    int state;
    bool arrays[SCAN_DEPTH_MAX]; /* what it is in */
    unsigned depth;
    bool is_key;
    unsigned unicode, digits, high; /* high: the first half of a pair, 0 = none */
};
/* false: it is no JSON, now and ever after. */
bool scan_feed(struct scan *s, const char *data, size_t length);
/* Nothing is begun that did not end. */
bool scan_is_whole(const struct scan *s);

#endif
