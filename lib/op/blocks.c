/* Owns the form of content blocks (MCP, tools/call). It must not know what they show. */
#include "lib/op/blocks.h"

static void separate(struct buffer *blocks)
{
    if (blocks->length > 0)
        buffer_append_char(blocks, ',');
}

void blocks_add_text(struct buffer *blocks, const char *text, size_t length)
{
    separate(blocks);
    buffer_append_text(blocks, "{\"type\":\"text\",\"text\":\"");
    buffer_append_json(blocks, text, length);
    buffer_append_text(blocks, "\"}");
}

void blocks_add_image(struct buffer *blocks, const char *media_type, const char *base64)
{
    separate(blocks);
    buffer_append_text(blocks, "{\"type\":\"image\",\"mimeType\":\"");
    buffer_append_text(blocks, media_type);
    buffer_append_text(blocks, "\",\"data\":\"");
    buffer_append_text(blocks, base64);
    buffer_append_text(blocks, "\"}");
}
