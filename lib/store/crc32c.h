/* CRC32C (Castagnoli, RFC 3720 appendix B.4), by the processor's instruction where it has one. */
#ifndef STORE_CRC32C_H
#define STORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc = 0 to begin with, else the result of the bytes before. Safe from several threads. */
uint32_t crc32c(uint32_t crc, const void *data, size_t length);
/* The same by a table alone: what runs without SSE4.2, and what tests compare with. */
uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t length);

#endif
