/* Owns the hash of long contents. The processor's own instructions are used where it has them: a hash of a
 * gigabyte stands before the first byte of a download. It must not know what is hashed. */
#include "lib/base/sha256.h"

#include <endian.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t value, int bits)
{
    return value >> bits | value << (32 - bits);
}

static void compress(uint32_t state[8], const unsigned char *data, size_t blocks)
{
    for (; blocks > 0; blocks--, data += 64) {
        uint32_t w[64], s[8];
        for (int i = 0; i < 16; i++) {
            memcpy(&w[i], data + 4 * i, 4);
            w[i] = be32toh(w[i]);
        }
        for (int i = 16; i < 64; i++) {
            uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
                   (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
        }
        memcpy(s, state, sizeof(s));
        for (int i = 0; i < 64; i++) {
            uint32_t one = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
                           ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
            uint32_t two = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) +
                           ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            memmove(s + 1, s, 7 * sizeof(s[0]));
            s[4] += one;
            s[0] = one + two;
        }
        for (int i = 0; i < 8; i++)
            state[i] += s[i];
    }
}

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>

__attribute__((target("sha,sse4.1"))) static void compress_fast(uint32_t state[8], const unsigned char *data,
                                                                size_t blocks)
{
    const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i dcba = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xB1);
    __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1B);
    __m128i abef = _mm_alignr_epi8(dcba, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, dcba, 0xF0);
    for (; blocks > 0; blocks--, data += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + 16 * i)), order);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i sum = _mm_add_epi32(w[i % 4], _mm_loadu_si128((const __m128i *)(constants + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
            __m128i far = _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4);
            w[i % 4] = _mm_sha256msg2_epu32(
                _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), far), w[(i + 3) % 4]);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}

static bool is_fast(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 29;
}
#else
#define compress_fast compress
static bool is_fast(void)
{
    return false;
}
#endif

/* Asking the processor is dear where a hypervisor answers: not for little. */
static void compress_best(uint32_t state[8], const unsigned char *data, size_t blocks)
{
    enum { UNKNOWN, PLAIN, FAST, WORTH_ASKING = 256 };
    static int kind = UNKNOWN;
    if (kind == UNKNOWN && blocks >= WORTH_ASKING)
        kind = is_fast() ? FAST : PLAIN;
    if (kind == FAST)
        compress_fast(state, data, blocks);
    else
        compress(state, data, blocks);
}

void sha256_begin(struct sha256 *hash)
{
    *hash = (struct sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                        0x9b05688c, 0x1f83d9ab, 0x5be0cd19 } };
}

void sha256_add(struct sha256 *hash, const void *data, size_t length)
{
    const unsigned char *at = data;
    size_t held = hash->length % sizeof(hash->block);
    hash->length += length;
    if (held > 0) {
        size_t piece = length < sizeof(hash->block) - held ? length : sizeof(hash->block) - held;
        memcpy(hash->block + held, at, piece);
        at += piece;
        length -= piece;
        if (held + piece < sizeof(hash->block))
            return;
        compress_best(hash->state, hash->block, 1);
    }
    compress_best(hash->state, at, length / sizeof(hash->block));
    if (length % sizeof(hash->block) > 0)
        memcpy(hash->block, at + length / 64 * 64, length % sizeof(hash->block));
}

void sha256_end(struct sha256 *hash, char text[static SHA256_TEXT_SIZE])
{
    static const unsigned char padding[64] = { 0x80 };
    uint64_t bits = htobe64(hash->length * 8);
    size_t held = hash->length % 64;
    sha256_add(hash, padding, held < 56 ? 56 - held : 120 - held);
    sha256_add(hash, &bits, sizeof(bits));
    int at = sprintf(text, "sha256:");
    for (int i = 0; i < 8; i++)
        at += sprintf(text + at, "%08x", hash->state[i]);
}
