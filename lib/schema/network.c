/* Rules for network names: address ranges and domains of allow-lists. Pure text; resolves nothing. */
#include "lib/schema/formats.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>

static bool is_ldh(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}

static bool is_label(const char *text, size_t length)
{
    if (length < 1 || length > 63 || text[0] == '-' || text[length - 1] == '-')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_ldh(text[i]))
            return false;
    return true;
}

static bool is_host(const char *text, size_t length)
{
    if (length < 1 || length > 253)
        return false;
    for (size_t at = 0; at <= length;) {
        const char *dot = at < length ? memchr(text + at, '.', length - at) : NULL;
        size_t part = dot ? (size_t)(dot - text) - at : length - at;
        if (!is_label(text + at, part))
            return false;
        at += part + 1;
    }
    return true;
}

static bool accepts_domain(const char *text, size_t length)
{
    if (length == 1 && text[0] == '*')
        return true;
    if (length > 2 && text[0] == '*' && text[1] == '.')
        return length <= 253 && is_host(text + 2, length - 2);
    return is_host(text, length);
}
const struct field_format format_domain = { "domain", NULL, accepts_domain,
                                            "must be '*', a host name, or '*.' and a host name" };

/* "24" or, for IPv4, "255.255.255.0"; -1 where it is none. */
static int prefix_length(const char *text, int bits)
{
    struct in_addr mask;
    uint32_t value;
    int prefix = 0;

    if (bits == 32 && strchr(text, '.')) {
        if (inet_pton(AF_INET, text, &mask) != 1)
            return -1;
        value = ntohl(mask.s_addr);
        while (prefix < 32 && value & (UINT32_C(1) << (31 - prefix)))
            prefix++;
        return prefix == 32 || value << prefix == 0 ? prefix : -1;
    }
    if (!*text || strlen(text) > 3 || strspn(text, "0123456789") != strlen(text))
        return -1;
    prefix = atoi(text);
    return prefix <= bits ? prefix : -1;
}

static void mask_address(unsigned char *address, int bytes, int prefix)
{
    for (int i = 0; i < bytes; i++) {
        int keep = prefix - i * 8;
        address[i] = keep >= 8   ? address[i]
                     : keep <= 0 ? 0
                                 : (unsigned char)(address[i] & (0xFF << (8 - keep)));
    }
}

char *format_normalise_cidr(const char *text)
{
    char copy[128], shown[INET6_ADDRSTRLEN], *slash;
    unsigned char address[16];
    int family, bits, prefix;

    if (strlen(text) >= sizeof copy)
        return NULL;
    strcpy(copy, text);
    slash = strchr(copy, '/');
    if (slash)
        *slash++ = '\0';
    family = strchr(copy, ':') ? AF_INET6 : AF_INET;
    bits = family == AF_INET6 ? 128 : 32;
    prefix = slash ? prefix_length(slash, bits) : bits;
    if (prefix < 0 || inet_pton(family, copy, address) != 1)
        return NULL;
    mask_address(address, bits / 8, prefix);
    inet_ntop(family, address, shown, sizeof shown);
    return xasprintf("%s/%d", shown, prefix);
}

static bool accepts_cidr(const char *text, size_t length)
{
    _cleanup_free_ char *copy = NULL, *normal = NULL;

    if (length >= 128)
        return false;
    copy = xstrndup(text, length);
    normal = strlen(copy) == length ? format_normalise_cidr(copy) : NULL;
    return normal != NULL;
}
const struct field_format format_cidr = {
    "address range", NULL, accepts_cidr,
    "must be an address or an address range such as 10.0.0.0/8 or 2001:db8::/32"
};
