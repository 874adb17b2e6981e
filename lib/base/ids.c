/* Owns: random ids, hashes and comparing secrets; the only includer of sodium.h.
 * It must not know: what an id names. Without randomness there is no safe way on, so a failing getrandom(2)
 * ends the process. */
#include "lib/base/ids.h"

#include <errno.h>
#include <sodium.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { ID_PREFIX = 3, ID_DIGITS = 32 };
_Static_assert(ID_SIZE == ID_PREFIX + ID_DIGITS + 1, "an id is a prefix, digits and NUL");

static const char prefixes[][ID_PREFIX + 1] = {
    [ID_WORKSPACE] = "ws-",
    [ID_EXEC] = "ex-",
    [ID_WATCH] = "fw-",
    [ID_SANDBOX] = "sb-",
};

static void put_hex(char *text, const uint8_t *data, size_t digits)
{
    static const char letters[] = "0123456789abcdef";
    for (size_t at = 0; at < digits; at++)
        text[at] = letters[at % 2 == 0 ? data[at / 2] >> 4 : data[at / 2] & 15];
    text[digits] = '\0';
}

void id_random(void *data, size_t length)
{
    char *at = data;
    while (length > 0) {
        ssize_t got = getrandom(at, length, 0);
        if (got < 0 && errno != EINTR)
            abort();
        if (got > 0) {
            at += got;
            length -= (size_t)got;
        }
    }
}

void id_random_hex(char *text, size_t digits)
{
    uint8_t bytes[32];
    while (digits > 2 * sizeof(bytes)) {
        id_random(bytes, sizeof(bytes));
        put_hex(text, bytes, 2 * sizeof(bytes));
        text += 2 * sizeof(bytes);
        digits -= 2 * sizeof(bytes);
    }
    id_random(bytes, sizeof(bytes));
    put_hex(text, bytes, digits);
}

void id_make(enum id_kind kind, char id[static ID_SIZE])
{
    memcpy(id, prefixes[kind], ID_PREFIX);
    id_random_hex(id + ID_PREFIX, ID_DIGITS);
}

bool id_is_valid(enum id_kind kind, const char *text)
{
    if (text == NULL || strncmp(text, prefixes[kind], ID_PREFIX) != 0)
        return false;
    return strspn(text + ID_PREFIX, "0123456789abcdef") == ID_DIGITS && text[ID_SIZE - 1] == '\0';
}

bool id_secret_equal(const char *a, const char *b)
{
    uint8_t hash_a[crypto_hash_sha256_BYTES], hash_b[crypto_hash_sha256_BYTES];
    if (a == NULL || b == NULL)
        return false;
    crypto_hash_sha256(hash_a, (const uint8_t *)a, strlen(a));
    crypto_hash_sha256(hash_b, (const uint8_t *)b, strlen(b));
    return sodium_memcmp(hash_a, hash_b, sizeof(hash_a)) == 0;
}

void id_hash(const void *data, size_t length, char hex[static ID_HASH_SIZE])
{
    uint8_t hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256(hash, data, length);
    put_hex(hex, hash, 2 * sizeof(hash));
}
