/* The blocks of an MCP answer's content, as JSON text with commas between them. */
#ifndef OP_BLOCKS_H
#define OP_BLOCKS_H

#include "lib/base/buffer.h"

void blocks_add_text(struct buffer *blocks, const char *text, size_t length);
void blocks_add_image(struct buffer *blocks, const char *media_type, const char *base64);

#endif
