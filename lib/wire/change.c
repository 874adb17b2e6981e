/* Owns the bytes of changes, both ways. What it decodes may be anything. Pure. */
#include "lib/wire/change.h"

#include <string.h>
#include <strings.h>

#define HEADER 8

const char *const change_type_names[CHANGE_TYPES] = {
    [CHANGE_UNKNOWN] = "unknown", [CHANGE_ACCESS] = "access", [CHANGE_CREATE] = "create",
    [CHANGE_MODIFY] = "modify",   [CHANGE_REMOVE] = "remove", [CHANGE_OVERFLOW] = "overflow",
};

bool change_type_find(const char *name, enum change_type *ret)
{
    for (enum change_type type = CHANGE_UNKNOWN; type < CHANGE_OVERFLOW; type++)
        if (strcasecmp(name, change_type_names[type]) == 0) {
            *ret = type;
            return true;
        }
    return false;
}

static const char *const why_names[] = {
    [WHY_NONE] = "",
    [WHY_QUEUE] = "queue",
    [WHY_BUFFER] = "buffer",
    [WHY_WATCHES] = "watches",
    [WHY_RACE] = "race",
    [WHY_UNREADABLE] = "unreadable",
    [WHY_REMOVED] = "watched_path_removed",
    [WHY_MOVED] = "watched_path_moved",
};

const char *change_why_name(enum change_why why)
{
    return why_names[why];
}

static void put_u16(unsigned char *at, size_t value)
{
    at[0] = (unsigned char)(value >> 8);
    at[1] = (unsigned char)value;
}

void change_encode(const struct change *change, struct buffer *out)
{
    unsigned char header[HEADER] = { (unsigned char)change->type, (unsigned char)change->flags,
                                     (unsigned char)change->why };
    put_u16(header + 4, change->length);
    put_u16(header + 6, change->other_length);
    buffer_append(out, header, HEADER);
    buffer_append(out, change->path, change->length);
    if (change->other_length > 0)
        buffer_append(out, change->other, change->other_length);
}

/* Names joined by single slashes, none of them "." or "..". */
static bool is_path(const char *path, size_t length)
{
    if (length == 1 && path[0] == '.')
        return true;
    if (length == 0 || length > CHANGE_PATH_MAX || memchr(path, '\0', length))
        return false;
    for (size_t at = 0; at <= length;) {
        const char *slash = memchr(path + at, '/', length - at);
        size_t name = slash ? (size_t)(slash - path) - at : length - at;
        bool dots = (name == 1 || name == 2) && path[at] == '.' && path[at + name - 1] == '.';
        if (name == 0 || dots)
            return false;
        at += name + 1;
    }
    return true;
}

static bool is_sound(const struct change *change)
{
    bool moved = (change->flags & CHANGE_MOVED) != 0;
    if (!is_path(change->path, change->length))
        return false;
    return moved ? is_path(change->other, change->other_length) : change->other_length == 0;
}

long change_decode(const char *data, size_t length, struct change *ret, struct error *err)
{
    const unsigned char *bytes = (const unsigned char *)data;
    if (length < HEADER)
        return 0;
    if (bytes[0] == 0 || bytes[0] >= CHANGE_TYPES || bytes[1] > CHANGE_FLAGS || bytes[2] >= WHY_COUNT)
        return error_set(err, ERROR_INVALID, "what the watcher says is no change");
    *ret = (struct change){ .type = bytes[0],
                            .flags = bytes[1],
                            .why = bytes[2],
                            .path = data + HEADER,
                            .length = (size_t)bytes[4] << 8 | bytes[5],
                            .other_length = (size_t)bytes[6] << 8 | bytes[7] };
    ret->other = ret->path + ret->length;
    size_t whole = HEADER + ret->length + ret->other_length;
    if (whole > CHANGE_MAX)
        return error_set(err, ERROR_INVALID, "a path of the watcher is too long");
    if (length < whole)
        return 0;
    return is_sound(ret) ? (long)whole : error_set(err, ERROR_INVALID, "a path of the watcher is none");
}
