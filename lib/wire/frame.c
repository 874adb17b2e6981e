/* Owns: the bytes of a frame's header. It must not know: streams, credit, or what a payload means. */
#include "lib/wire/frame.h"

#include <endian.h>

enum { AT_LENGTH = 0, AT_STREAM = 4, AT_TYPE = 8, AT_FLAGS = 9, AT_ZERO = 10 };
enum { KNOWN_FLAGS = FRAME_MORE | FRAME_LATE | FRAME_CHANNEL };

static uint32_t get_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return be32toh(value);
}

static void put_u32(char *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, sizeof(value));
}

void frame_encode_header(char out[static FRAME_HEADER_SIZE], const struct frame *frame)
{
    put_u32(out + AT_LENGTH, frame->length);
    put_u32(out + AT_STREAM, frame->stream);
    out[AT_TYPE] = (char)frame->type;
    out[AT_FLAGS] = (char)frame->flags;
    out[AT_ZERO] = out[AT_ZERO + 1] = 0;
}

/* The length is judged as soon as it is there: nobody waits for the rest of what cannot become a frame. */
long frame_decode(const char *data, size_t length, struct frame *ret, struct error *err)
{
    if (length < AT_STREAM)
        return 0;
    uint32_t payload = get_u32(data + AT_LENGTH);
    if (payload > FRAME_PAYLOAD_MAX)
        return error_set(err, ERROR_INTERNAL, "a frame is too long: %u bytes", payload);
    if (length < FRAME_HEADER_SIZE)
        return 0;
    uint8_t type = (uint8_t)data[AT_TYPE], flags = (uint8_t)data[AT_FLAGS];
    if (type == 0 || type >= FRAME_TYPE_COUNT)
        return error_set(err, ERROR_INTERNAL, "a frame has the unknown type %u", type);
    if ((flags & ~KNOWN_FLAGS) != 0 || data[AT_ZERO] != 0 || data[AT_ZERO + 1] != 0)
        return error_set(err, ERROR_INTERNAL, "a frame has unknown flags");
    if (length - FRAME_HEADER_SIZE < payload)
        return 0;
    *ret = (struct frame){ .stream = get_u32(data + AT_STREAM),
                           .length = payload,
                           .type = type,
                           .flags = flags,
                           .payload = data + FRAME_HEADER_SIZE };
    return FRAME_HEADER_SIZE + (long)payload;
}
