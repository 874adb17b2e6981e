/* Owns looking at the bytes of files, whatever file they are of. */
#include "lib/agent/files/content.h"

#include "lib/base/memory.h"

#include <errno.h>

struct magic {
    const char *bytes;
    size_t offset, length;
    const char *name;
};

static bool starts(const struct magic *magic, const char *data, size_t length)
{
    return length >= magic->offset + magic->length &&
           memcmp(data + magic->offset, magic->bytes, magic->length) == 0;
}

static const char *find(const struct magic *table, size_t count, const char *data, size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (starts(&table[i], data, length))
            return table[i].name;
    return NULL;
}

const char *content_image(const char *data, size_t length)
{
    static const struct magic images[] = {
        { "\x89PNG\r\n\x1a\n", 0, 8, "image/png" },
        { "\xff\xd8\xff", 0, 3, "image/jpeg" },
        { "GIF87a", 0, 6, "image/gif" },
        { "GIF89a", 0, 6, "image/gif" },
    };
    static const struct magic riff = { "RIFF", 0, 4, "" }, webp = { "WEBP", 8, 4, "image/webp" };
    if (starts(&riff, data, length) && starts(&webp, data, length))
        return webp.name;
    return find(images, N_ELEMENTS(images), data, length);
}

const char *content_binary(const char *data, size_t length)
{
    static const struct magic known[] = {
        { "\xff\xfe\0\0", 0, 4, "UTF-32 text" },
        { "\0\0\xfe\xff", 0, 4, "UTF-32 text" },
        { "\xff\xfe", 0, 2, "UTF-16 text" },
        { "\xfe\xff", 0, 2, "UTF-16 text" },
        { "\x7f"
          "ELF",
          0, 4, "an ELF binary" },
        { "%PDF-", 0, 5, "a PDF document" },
        { "PK\3\4", 0, 4, "a ZIP archive" },
        { "\x1f\x8b", 0, 2, "gzip data" },
        { "(\xb5/\xfd", 0, 4, "zstd data" },
        { "\xfd"
          "7zXZ",
          0, 5, "xz data" },
        { "SQLite format 3", 0, 16, "an SQLite database" },
    };
    const char *name = find(known, N_ELEMENTS(known), data, length);
    if (name)
        return name;
    size_t look = length < CONTENT_LOOK ? length : CONTENT_LOOK;
    return look > 0 && memchr(data, '\0', look) ? "binary data" : NULL;
}

size_t content_mark(const char *data, size_t length)
{
    return length >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

int content_read(int fd, size_t limit, struct buffer *ret, struct error *err)
{
    enum { PIECE = 64 << 10 };
    for (ssize_t got; (got = read(fd, buffer_reserve(ret, PIECE), PIECE)) != 0;) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, ERROR_DRIVER, errno, "a file cannot be read");
        ret->length += (size_t)got;
        if (ret->length > limit)
            return error_set(err, ERROR_TOO_LARGE, "the file has more than %zu bytes", limit);
    }
    return 0;
}

int content_hash(int fd, char text[static SHA256_TEXT_SIZE], int64_t *ret_size, struct error *err)
{
    enum { PIECE = 256 << 10 };
    _cleanup_free_ char *piece = xmalloc(PIECE);
    struct sha256 hash;
    int64_t size = 0;
    sha256_begin(&hash);
    for (ssize_t got; (got = read(fd, piece, PIECE)) != 0;) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, ERROR_DRIVER, errno, "a file cannot be read");
        sha256_add(&hash, piece, (size_t)got);
        size += got;
    }
    sha256_end(&hash, text);
    if (ret_size)
        *ret_size = size;
    return 0;
}
