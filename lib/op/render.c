/* Members of JSON objects as text. Knows only buffers and JSON's grammar. */
#include "lib/op/render.h"

#include "lib/base/clock.h"

void render_name(struct buffer *out, const char *name)
{
    if (out->length > 0 && out->data[out->length - 1] != '{')
        buffer_append_char(out, ',');
    buffer_append_char(out, '"');
    buffer_append_text(out, name);
    buffer_append(out, "\":", 2);
}

void render_raw(struct buffer *out, const char *name, const char *json)
{
    render_name(out, name);
    buffer_append_text(out, json);
}

void render_bytes(struct buffer *out, const char *name, const void *data, size_t length)
{
    render_name(out, name);
    buffer_append_char(out, '"');
    buffer_append_json(out, data, length);
    buffer_append_char(out, '"');
}

void render_text(struct buffer *out, const char *name, const char *text)
{
    if (text)
        render_bytes(out, name, text, strlen(text));
    else
        render_raw(out, name, "null");
}

void render_i64(struct buffer *out, const char *name, int64_t value)
{
    render_name(out, name);
    buffer_append_i64(out, value);
}

void render_u64(struct buffer *out, const char *name, uint64_t value)
{
    render_name(out, name);
    buffer_append_u64(out, value);
}

void render_bool(struct buffer *out, const char *name, bool value)
{
    render_raw(out, name, value ? "true" : "false");
}

void render_time(struct buffer *out, const char *name, int64_t wall_us)
{
    char text[CLOCK_TEXT_SIZE];

    if (wall_us != 0)
        clock_format(wall_us, text);
    render_text(out, name, wall_us != 0 ? text : NULL);
}
