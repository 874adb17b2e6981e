/* FNV-1a, 64 bits (draft-eastlake-fnv): a hash for tables and the like. Who chooses the bytes can make two of
 * them the same, so nothing may depend on it but speed, or what its user says beside it. */
#ifndef BASE_FNV_H
#define BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

#define FNV_BEGIN UINT64_C(0xcbf29ce484222325)

/* hash: FNV_BEGIN, or what the bytes before these made. */
static inline uint64_t fnv_mix(uint64_t hash, const void *data, size_t length)
{
    for (const unsigned char *at = data; length > 0; at++, length--)
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
