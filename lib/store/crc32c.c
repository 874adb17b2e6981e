/* Owns the checksum of stored values. Which way is taken is found out at the first call, so that one binary
 * runs on every processor. Knows nothing of what the bytes mean. */
#include "lib/store/crc32c.h"

#include <stdatomic.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* reflected */

typedef uint32_t crc32c_function(uint32_t crc, const void *data, size_t length);

static void make_table(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? POLYNOMIAL : 0);
        table[i] = crc;
    }
}

uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t length)
{
    static uint32_t table[256];
    static atomic_int ready;
    if (!atomic_load_explicit(&ready, memory_order_acquire)) {
        /* Two threads may both fill it: they write the same words. */
        make_table(table);
        atomic_store_explicit(&ready, 1, memory_order_release);
    }
    const unsigned char *p = data;
    crc = ~crc;
    for (size_t i = 0; i < length; i++)
        crc = table[(crc ^ p[i]) & 0xff] ^ (crc >> 8);
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc32c_by_instruction(uint32_t crc, const void *data,
                                                                        size_t length)
{
    const unsigned char *p = data;
    uint64_t wide = (uint32_t)~crc;
    for (; length >= 8; p += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    uint32_t narrow = (uint32_t)wide;
    for (; length > 0; p++, length--)
        narrow = __builtin_ia32_crc32qi(narrow, *p);
    return ~narrow;
}

static crc32c_function *choose(void)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_by_instruction : crc32c_by_table;
}
#else
static crc32c_function *choose(void)
{
    return crc32c_by_table;
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t length)
{
    static _Atomic(crc32c_function *) chosen;
    crc32c_function *function = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (!function) {
        function = choose();
        atomic_store_explicit(&chosen, function, memory_order_relaxed);
    }
    return function(crc, data, length);
}
