/* Base64 -> bytes, strictly: the standard alphabet, full padding, no white space, no stray bits. */
#include "lib/base/base64.h"

unsigned char base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned char)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned char)(c - 'a' + 26);
    if (c >= '0' && c <= '9')
        return (unsigned char)(c - '0' + 52);
    return c == '+' ? 62 : c == '/' ? 63 : BASE64_NONE;
}

static size_t padding_of(const char *text, size_t length)
{
    if (length == 0 || text[length - 1] != '=')
        return 0;
    return text[length - 2] == '=' ? 2 : 1;
}

bool base64_is_valid(const char *text, size_t length)
{
    size_t padding = length % 4 == 0 ? padding_of(text, length) : 0;

    if (length % 4 != 0)
        return false;
    for (size_t i = 0; i < length - padding; i++)
        if (base64_value(text[i]) == BASE64_NONE)
            return false;
    return padding == 0 || (base64_value(text[length - padding - 1]) & (padding == 1 ? 0x03 : 0x0F)) == 0;
}

bool base64_decode(const char *text, size_t length, struct buffer *out)
{
    size_t padding, bits = 0;
    unsigned word = 0;
    char *at;

    if (!base64_is_valid(text, length))
        return false;
    padding = padding_of(text, length);
    at = buffer_reserve(out, length / 4 * 3);
    for (size_t i = 0; i < length - padding; i++) {
        word = word << 6 | base64_value(text[i]);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            *at++ = (char)(word >> bits & 0xFF);
        }
    }
    out->length += length / 4 * 3 - padding;
    return true;
}
