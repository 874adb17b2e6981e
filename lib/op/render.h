/* JSON objects written straight as text, for answers that are asked for thousands of times a second or are
 * too large for a tree. Each call appends one member to the object that was begun last; names are literals
 * and need no escaping. */
#ifndef OP_RENDER_H
#define OP_RENDER_H

#include "lib/base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

void render_name(struct buffer *out, const char *name); /* [,]"name": the value is the caller's */
void render_raw(struct buffer *out, const char *name, const char *json);
void render_text(struct buffer *out, const char *name, const char *text); /* NULL = null */
void render_bytes(struct buffer *out, const char *name, const void *data, size_t length);
void render_i64(struct buffer *out, const char *name, int64_t value);
void render_u64(struct buffer *out, const char *name, uint64_t value);
void render_bool(struct buffer *out, const char *name, bool value);
void render_time(struct buffer *out, const char *name, int64_t wall_us); /* 0 = null */

#endif
