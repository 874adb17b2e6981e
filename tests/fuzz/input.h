/* Bytes of a fuzzer taken apart into numbers and pieces: an input that is at its end gives zeros and nothing.
 */
#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t input_u8(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static inline uint16_t input_u16(struct input *in)
{
    unsigned high = input_u8(in);
    return (uint16_t)(high << 8 | input_u8(in));
}

/* At most length bytes. */
static inline const char *input_bytes(struct input *in, size_t length, size_t *ret_length)
{
    const char *bytes = (const char *)in->at;
    *ret_length = length < in->left ? length : in->left;
    in->at += *ret_length;
    in->left -= *ret_length;
    return bytes;
}

/* Up to the next newline, which is taken too. */
static inline const char *input_line(struct input *in, size_t *ret_length)
{
    const char *newline = in->left > 0 ? memchr(in->at, '\n', in->left) : NULL;
    const char *line =
        input_bytes(in, newline != NULL ? (size_t)(newline - (const char *)in->at) : in->left, ret_length);
    input_u8(in);
    return line;
}

/* The property that a target looks for does not hold. */
#define holds(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            abort();                                                                                         \
    } while (0)

#endif
