/* Owns giving a file's bytes as they are: {"path", "first", "last", "suffix", "if_match", "if_none_match",
 * "if_range", "head_only"}. The reply comes first and tells which bytes follow; a file that changes meanwhile
 * ends the call as broken, so that nobody takes a mixture for a file: a short one is read before anything is
 * told of it, and of a long one the last byte is held back until it is known to be the same: by its hash,
 * where that is what the tag says and all of it is sent (a write sets a file's times before its bytes), else
 * by its times. */
#include "lib/agent/files/call.h"
#include "lib/agent/files/tag.h"
#include "lib/agent/search/names.h"
#include "lib/base/io.h"
#include "lib/wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <time.h>

#define PIECE     (1u << 20)
#define PIPE_SIZE (1 << 20)
/* What is not longer leaves this process at once, however slow the client is. */
#define AT_ONCE (FRAME_WINDOW / 2)
#define SHORT   (1 << 20)
/* Longer than a step of the clock that files get their times from: what is written later has another one. */
#define STEP_US 30000
enum { TRIES = 8, READ_PIECE = 256 << 10 };

struct download {
    const char *path;
    struct stat stat;
    struct file_tag tag;
    int64_t first, length;
    bool partial, known, unsatisfiable;
    struct buffer content; /* all of a short one */
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

/* ---- what is sent ---- */

static bool is_unchanged(int fd, const struct download *d)
{
    struct stat now;
    return fstat(fd, &now) == 0 && now.st_size == d->stat.st_size &&
           now.st_mtim.tv_sec == d->stat.st_mtim.tv_sec && now.st_mtim.tv_nsec == d->stat.st_mtim.tv_nsec;
}

static int send_up_to(const struct file_call_context *call, int fd, const struct download *d, off_t *at,
                      off_t end, struct error *err)
{
    while (*at < end) {
        ssize_t sent = sendfile(call->output, fd, at, end - *at < PIECE ? (size_t)(end - *at) : PIECE);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return path_fail(err, sent < 0 ? errno : EIO, d->path, "cannot be read to its end");
    }
    return 0;
}

static int fail_changed(const struct download *d, struct error *err)
{
    return path_fail(err, EIO, d->path, "changed while it was read");
}

/* All of it, which is to have the hash that was told. */
static int send_hashed(const struct file_call_context *call, int fd, const struct download *d,
                       struct error *err)
{
    _cleanup_free_ char *piece = xmalloc(READ_PIECE);
    struct sha256 hash;
    char text[SHA256_TEXT_SIZE], last = 0;
    sha256_begin(&hash);
    for (off_t at = 0; at < d->length;) {
        ssize_t got = pread(fd, piece, READ_PIECE, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || at + got > d->length)
            return fail_changed(d, err);
        at += got;
        sha256_add(&hash, piece, (size_t)got);
        last = piece[got - 1];
        if (io_write_all(call->output, piece, (size_t)(at < d->length ? got : got - 1), err) < 0)
            return -1;
    }
    sha256_end(&hash, text);
    return strcmp(text, d->tag.hash) == 0 ? io_write_all(call->output, &last, 1, err) : fail_changed(d, err);
}

static int send_bytes(const struct file_call_context *call, int fd, const struct download *d,
                      struct error *err)
{
    off_t at = d->first, end = at + d->length;
    fcntl(call->output, F_SETPIPE_SZ, PIPE_SIZE);
    if (d->stat.st_size <= SHORT)
        return io_write_all(call->output, d->content.data + at, (size_t)d->length, err);
    if (!d->partial && tag_is_hash(&d->tag))
        return send_hashed(call, fd, d, err);
    if (send_up_to(call, fd, d, &at, end - 1, err) < 0)
        return -1;
    if (!is_unchanged(fd, d))
        return fail_changed(d, err);
    return send_up_to(call, fd, d, &at, end, err);
}

static bool read_short(int fd, struct download *d)
{
    size_t room = (size_t)d->stat.st_size + 1;
    d->content.length = 0;
    for (ssize_t got = 1; got > 0 && d->content.length < room;) {
        got =
            pread(fd, buffer_reserve(&d->content, room), room - d->content.length, (off_t)d->content.length);
        d->content.length += got > 0 ? (size_t)got : 0;
    }
    return d->content.length == (size_t)d->stat.st_size && is_unchanged(fd, d);
}

static bool is_fresh(const struct stat *stat)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age_us =
        (now.tv_sec - stat->st_mtim.tv_sec) * 1000000ll + (now.tv_nsec - stat->st_mtim.tv_nsec) / 1000;
    return age_us >= 0 && age_us < STEP_US;
}

/* What its tag and its bytes are taken from: one state of it. */
static int take_state(int fd, struct download *d, struct error *err)
{
    for (int tries = 0; tries < TRIES; tries++) {
        bool is_short = d->stat.st_size <= SHORT;
        if (is_short ? read_short(fd, d) : !is_fresh(&d->stat))
            return 0;
        usleep(is_short ? 1000u << tries : STEP_US);
        if (fstat(fd, &d->stat) < 0)
            return path_fail(err, errno, d->path, "cannot be read");
    }
    return d->stat.st_size <= SHORT ? path_fail(err, ESTALE, d->path, NULL) : 0;
}

static int download(struct file_call_context *call, int fd, struct download *d, const char *shown,
                    struct error *err)
{
    if (take_state(fd, d, err) < 0)
        return -1;
    choose_all(d);
    tag_begin(&d->tag, fd, &d->stat);
    if (d->stat.st_size <= SHORT)
        tag_set_content(&d->tag, d->content.data, d->content.length);
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
    int rc = fd < 0 ? -1 : download(call, fd, &d, place.shown, err);
    buffer_free(&d.content);
    return rc;
}
