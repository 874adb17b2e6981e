/* SHA-256 (FIPS 180-4) of what comes in pieces: the hash of a file's content. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_TEXT_SIZE 72 /* "sha256:" + 64 + NUL */
struct sha256 {
    uint32_t state[8];
    uint64_t length;
    unsigned char block[64];
};
void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t length);
void sha256_end(struct sha256 *hash, char text[static SHA256_TEXT_SIZE]);

#endif
