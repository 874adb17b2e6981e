/* What a watcher in the sandbox tells its keeper: a change of the watched files each, as bytes of FRAME_DATA
 * of channel 1.
 *
 * A change: u8 type, u8 flags, u8 why, u8 zero, u16 length of the path, u16 length of the other one
 * (big-endian), then both. Paths are bytes, from the workspace's folder on: "a/b", "." = that folder itself.
 */
#ifndef WIRE_CHANGE_H
#define WIRE_CHANGE_H

#include "lib/base/buffer.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define CHANGE_PATH_MAX 4095
#define CHANGE_MAX      (8 + 2 * CHANGE_PATH_MAX) /* bytes of one */

enum change_type {
    CHANGE_UNKNOWN = 1,
    CHANGE_ACCESS,
    CHANGE_CREATE,
    CHANGE_MODIFY,
    CHANGE_REMOVE,
    CHANGE_OVERFLOW, /* changes were not seen: what lies below the path is to be looked at anew */
    CHANGE_END,      /* nothing follows */
    CHANGE_TYPES
};
enum change_flag {
    CHANGE_FOLDER = 1,
    CHANGE_MOVED = 2, /* other is the second name: of REMOVE the new one, of CREATE and MODIFY the old one */
    CHANGE_FLAGS = 3
};
enum change_why {
    WHY_NONE,
    WHY_QUEUE,      /* OVERFLOW: the kernel's queue was full */
    WHY_BUFFER,     /* changes came faster than they were taken */
    WHY_WATCHES,    /* fs.inotify.max_user_watches */
    WHY_RACE,       /* names changed while they were looked at */
    WHY_UNREADABLE, /* a folder cannot be opened, or its path is too long */
    WHY_REMOVED,    /* END: what was watched is gone */
    WHY_MOVED,
    WHY_COUNT
};
const char *change_why_name(enum change_why why); /* "queue", ...; "" for WHY_NONE */

/* By type, and NULL from CHANGE_END on; the first is that of CHANGE_UNKNOWN. */
extern const char *const change_type_names[CHANGE_TYPES];
/* Of those that a watch may ask for, which all are but OVERFLOW and END; in upper or lower case. */
bool change_type_find(const char *name, enum change_type *ret);

struct change {
    enum change_type type;
    unsigned flags;
    enum change_why why;
    const char *path, *other; /* bytes without NUL */
    size_t length, other_length;
};
void change_encode(const struct change *change, struct buffer *out);
/* Looks at data: >0 = bytes of the first change (*ret points into data), 0 = more bytes are needed, -1 =
 * none.
 */
long change_decode(const char *data, size_t length, struct change *ret, struct error *err);

#endif
