/* Fuzzes the FastCGI record reader: whatever the cuts, the same pieces come out. The first byte is the size
 * of the cuts. */
#include "fcgi/records.h"

#include <fastcgi.h>
#include <stdint.h>

/* A sum over what was read, and -1 where it was refused. */
static int64_t read_all(const uint8_t *data, size_t size, size_t step)
{
    struct record_reader reader = { 0 };
    struct record_piece piece;
    uint64_t sum = 1469598103934665603u;

    for (size_t at = 0; at < size; at += step) {
        const char *bytes = (const char *)data + at;
        size_t length = size - at < step ? size - at : step;
        int taken;
        while ((taken = record_read(&reader, &bytes, &length, &piece)) > 0) {
            for (size_t i = 0; i < piece.length; i++)
                sum = (sum ^ (unsigned char)piece.data[i] ^ piece.type) * 1099511628211u;
            sum += piece.last ? piece.id : 0u;
            if (piece.type == FCGI_BEGIN_REQUEST && piece.length != 8)
                abort();
        }
        if (taken < 0)
            return -1;
        if (length != 0)
            abort();
    }
    return (int64_t)(sum >> 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;

    if (size == 0)
        return 0;
    if (read_all(data + 1, size - 1, (size_t)data[0] + 1) != read_all(data + 1, size - 1, size))
        abort();
    record_append_values(&out, (const char *)data + 1, size - 1);
    return 0;
}
