/* A run of bytes that somebody else owns: any bytes, any length. */
#ifndef EDIT_BYTES_H
#define EDIT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct bytes {
    const char *data;
    size_t length;
};

/* At the doors of the room: nothing may come as NULL, behind them it is a place. */
static inline struct bytes bytes_placed(struct bytes b)
{
    return b.data != NULL ? b : (struct bytes){ "", 0 };
}

static inline struct bytes bytes_cut(struct bytes b, size_t at, size_t length)
{
    return (struct bytes){ b.data + at, length };
}

static inline struct bytes bytes_from(struct bytes b, size_t at)
{
    return bytes_cut(b, at, b.length - at);
}

static inline bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static inline bool bytes_begin_with(struct bytes b, struct bytes start)
{
    return b.length >= start.length && (start.length == 0 || memcmp(b.data, start.data, start.length) == 0);
}

/* Where c stands first at or behind at; the length where it does not. */
static inline size_t bytes_find(struct bytes b, size_t at, char c)
{
    const char *found = at < b.length ? memchr(b.data + at, c, b.length - at) : NULL;
    return found != NULL ? (size_t)(found - b.data) : b.length;
}

#endif
