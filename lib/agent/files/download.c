/* Owns giving a file's bytes as they are: {"path", "first", "last", "suffix", "if_match", "if_none_match",
 * "if_range", "head_only"}. The reply comes first and tells which bytes follow; a file that changes meanwhile
 * ends the call as broken, so that nobody takes a mixture for a file. */
#include "lib/agent/files/call.h"
#include "lib/agent/files/tag.h"
#include "lib/agent/search/names.h"
#include "lib/wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>

#define PIECE     (1u << 20)
#define PIPE_SIZE (1 << 20)
/* What is not longer leaves this process at once, however slow the client is. */
#define AT_ONCE (FRAME_WINDOW / 2)

struct download {
    const char *path;
    struct stat stat;
    struct file_tag tag;
    int64_t first, length;
    bool partial, known, unsatisfiable;
};

static void choose_all(struct download *d)
{
    d->first = 0;
    d->length = d->stat.st_size;
    d->partial = d->unsatisfiable = false;
}

/* What of the range that the client asked for the file has (RFC 9110, 14.1.2). The end of an empty file is
 * all of it, which no Content-Range can say. */
static void choose_range(const struct file_call_context *call, struct download *d)
{
    int64_t size = d->stat.st_size, first = file_call_integer(call, "first", -1);
    int64_t last = file_call_integer(call, "last", INT64_MAX), suffix = file_call_integer(call, "suffix", -1);
    choose_all(d);
    if ((first < 0 && suffix < 0) || (size == 0 && suffix > 0))
        return;
    if (suffix >= 0) {
        first = suffix < size ? size - suffix : 0;
        last = suffix > 0 ? size - 1 : -1;
    }
    if (last >= size)
        last = size - 1;
    d->unsatisfiable = first >= size || last < first;
    d->partial = !d->unsatisfiable;
    if (d->unsatisfiable)
        return;
    d->first = first;
    d->length = last - first + 1;
}

/* In the order of RFC 9110, 13.2.2. */
static int check_conditions(const struct file_call_context *call, struct download *d, struct error *err)
{
    const char *match = file_call_path(call, "if_match"), *none = file_call_path(call, "if_none_match");
    const char *range = file_call_path(call, "if_range");
    int named = *match ? tag_is_named(&d->tag, match, false, err) : 1;
    if (named == 0)
        return error_set(err, ERROR_PRECONDITION, "'%.200s' is another now: its tag is %s", d->path,
                         tag_text(&d->tag, NULL));
    int known = named > 0 && *none ? tag_is_named(&d->tag, none, true, err) : 0;
    d->known = known > 0;
    if (named < 0 || known < 0)
        return -1;
    int same = *range && !d->known ? tag_is_named(&d->tag, range, false, err) : 1;
    if (same < 0)
        return -1;
    if (same > 0 && !d->known)
        choose_range(call, d);
    return 0;
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
    choose_all(d);
    tag_begin(&d->tag, fd, &d->stat);
    const char *tag = check_conditions(call, d, err) < 0 ? NULL : tag_text(&d->tag, err);
    if (!tag)
        return -1;
    json_auto_t *head =
        json_pack("{s:I, s:s, s:I, s:I, s:b, s:b, s:b}", "size", (json_int_t)d->stat.st_size, "tag", tag,
                  "first", (json_int_t)d->first, "length", (json_int_t)d->length, "partial", d->partial,
                  "known", d->known, "unsatisfiable", d->unsatisfiable);
    names_put(head, "path", shown, strlen(shown));
    bool has_body = !d->known && !d->unsatisfiable && !file_call_flag(call, "head_only");
    call->much_follows = has_body && d->length > AT_ONCE;
    file_call_reply(call, head, NULL);
    return !has_body ? 0 : send_bytes(call, fd, d, err);
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
