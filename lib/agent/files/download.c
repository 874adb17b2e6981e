/* Owns giving a file's bytes as they are: {"path", "first", "last", "suffix", "if_match", "if_none_match"}.
 * The reply comes first and tells which bytes follow; a file that changes meanwhile ends the call as broken,
 * so that nobody takes a mixture for a file. */
#include "lib/agent/files/call.h"
#include "lib/agent/files/content.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>

#define PIECE     (1u << 20)
#define PIPE_SIZE (1 << 20)

struct download {
    const char *path;
    struct stat stat;
    char hash[SHA256_TEXT_SIZE];
    int64_t first, length;
    bool partial;
};

/* A range of what the client asked for that the file has; none of it: ERROR_RANGE. */
static int choose_range(const struct file_call_context *call, struct download *d, struct error *err)
{
    int64_t size = d->stat.st_size, first = file_call_integer(call, "first", -1);
    int64_t last = file_call_integer(call, "last", INT64_MAX), suffix = file_call_integer(call, "suffix", -1);
    d->partial = first >= 0 || suffix >= 0;
    if (suffix >= 0) {
        first = suffix < size ? size - suffix : 0;
        last = suffix > 0 ? size - 1 : -1;
    }
    if (first < 0)
        first = 0;
    if (last >= size)
        last = size - 1;
    d->first = first;
    d->length = last - first + 1;
    if (d->partial && (first >= size || last < first))
        return error_set(err, ERROR_RANGE, "'%.200s' has %lld bytes", d->path, (long long)size);
    return 0;
}

/* Is text the hash, "*", or one of several? */
static bool names(const char *text, const char *hash)
{
    return strcmp(text, "*") == 0 || strstr(text, hash) != NULL;
}

static int check_conditions(const struct file_call_context *call, const struct download *d, struct error *err)
{
    const char *match = file_call_path(call, "if_match");
    if (*match && !names(match, d->hash))
        return error_set(err, ERROR_PRECONDITION, "'%.200s' is another now: its hash is %s", d->path,
                         d->hash);
    return 0;
}

static bool is_known(const struct file_call_context *call, const struct download *d)
{
    const char *none_match = file_call_path(call, "if_none_match");
    return *none_match && names(none_match, d->hash);
}

static bool is_unchanged(int fd, const struct download *d)
{
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_size == d->stat.st_size &&
           now.st_mtim.tv_sec == d->stat.st_mtim.tv_sec && now.st_mtim.tv_nsec == d->stat.st_mtim.tv_nsec;
}

static int send_bytes(const struct file_call_context *call, int fd, const struct download *d,
                      struct error *err)
{
    off_t at = d->first;
    fcntl(call->output, F_SETPIPE_SZ, PIPE_SIZE);
    for (int64_t left = d->length; left > 0;) {
        ssize_t sent = sendfile(call->output, fd, &at, left < PIECE ? (size_t)left : PIECE);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return path_fail(err, sent < 0 ? errno : EIO, d->path, "cannot be read to its end");
        left -= sent;
    }
    return is_unchanged(fd, d) ? 0 : path_fail(err, EIO, d->path, "changed while it was read");
}

static int download(struct file_call_context *call, int fd, struct download *d, const char *shown,
                    struct error *err)
{
    bool known;
    if (content_hash(fd, d->hash, NULL, err) < 0 || check_conditions(call, d, err) < 0)
        return -1;
    known = is_known(call, d);
    if (!known && choose_range(call, d, err) < 0)
        return -1;
    json_auto_t *head = json_pack("{s:s, s:I, s:s, s:I, s:I, s:b, s:b}", "path", shown, "size",
                                  (json_int_t)d->stat.st_size, "hash", d->hash, "first", (json_int_t)d->first,
                                  "length", (json_int_t)d->length, "partial", d->partial, "known", known);
    file_call_reply(call, head, NULL);
    return known || file_call_flag(call, "head_only") ? 0 : send_bytes(call, fd, d, err);
}

int file_download(struct file_call_context *call, json_t **ret, struct error *err)
{
    _cleanup_place_ struct place place = PLACE_INIT;
    struct download d = { .path = file_call_path(call, "path") };
    (void)ret;
    if (path_find_existing(&call->root, d.path, 0, &place, err) < 0)
        return -1;
    _cleanup_close_ int fd = path_open_file(&place, d.path, O_RDONLY, &d.stat, err);
    return fd < 0 ? -1 : download(call, fd, &d, place.shown, err);
}
