/* What a watcher in a sandbox says, as its keeper takes it apart: bytes that are a change make the same bytes
 * again, everything is found piece by piece as in one, and no path is one that leads up. */
#include "lib/wire/change.h"
#include "tests/fuzz/input.h"

static void check_path(const char *path, size_t length)
{
    holds(length > 0 && length <= CHANGE_PATH_MAX && memchr(path, '\0', length) == NULL && path[0] != '/');
    holds(length < 2 || memcmp(path, "..", 2) != 0 || (length > 2 && path[2] != '/'));
}

static void check_one(const char *data, size_t length, const struct change *change)
{
    struct buffer bytes = BUFFER_INIT;
    struct change cut;
    check_path(change->path, change->length);
    if (change->flags & CHANGE_MOVED)
        check_path(change->other, change->other_length);
    holds(change_why_name(change->why) != NULL);
    change_encode(change, &bytes);
    bytes.data[3] = data[3]; /* which says nothing */
    holds(bytes.length == length && memcmp(bytes.data, data, length) == 0);
    holds(change_decode(data, length - 1, &cut, NULL) == 0);
    buffer_free(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *exact = malloc(size + 1);
    holds(exact != NULL);
    if (size > 0)
        memcpy(exact, data, size);
    for (size_t at = 0; at < size;) {
        struct change change;
        long length = change_decode(exact + at, size - at, &change, NULL);
        holds(length <= (long)(size - at));
        if (length <= 0)
            break;
        check_one(exact + at, (size_t)length, &change);
        at += (size_t)length;
    }
    free(exact);
    return 0;
}
