/* Owns writing a whole file, the content on the input: a text of bounded size (write: {"path", "length",
 * "create_only", "if_match", "max_size"}), of which nothing is touched before it is here and every rule
 * holds, or bytes of any size (upload: {"path", "create_only", "if_match"}), which go to the disk as they
 * come and take their name at the end. */
#include "lib/agent/files/call.h"
#include "lib/agent/files/content.h"
#include "lib/agent/files/replace.h"
#include "lib/agent/files/tag.h"
#include "lib/agent/files/validate.h"
#include "lib/agent/search/names.h"
#include "lib/base/io.h"

#include <errno.h>
#include <fcntl.h>

#define UPLOAD_PIPE (1 << 20)
#define BEFORE_MORE (5u << 20) /* longer than the new content: the old one is not judged */

struct writing {
    const char *path, *if_match; /* if_match NULL = whatever is there */
    bool create_only;
    enum error_code refusal; /* where what is there is not what must be */
    const char *cure;        /* where there is a file: what its caller does to replace it */
    struct buffer content;   /* of write */
    struct sha256 hash;
    int64_t size;
    struct place place;
    struct stat matched; /* the file whose hash was if_match */
    int matched_fd;      /* it, held so that its number stays its own; -1 = none was compared */
    bool rested;         /* when it was compared */
};

static void writing_clear(struct writing *w)
{
    buffer_free(&w->content);
    memory_close_fd(&w->matched_fd);
    place_clear(&w->place);
}

/* ---- what is there ---- */

static int stale(const struct writing *w, const char *present, struct error *err)
{
    return error_set(
        err, w->refusal,
        "'%.200s' changed since it was read: read it again, and make your change on what is there now (%s)",
        w->path, *present ? present : "not known, as it is huge and just changed");
}

static int check_match(struct writing *w, struct error *err)
{
    struct file_tag tag;
    if (!w->if_match)
        return 0;
    if (w->place.exists && strcmp(w->if_match, "*") == 0)
        return 0;
    if (!w->place.exists)
        return error_set(err, w->refusal, "'%.200s' does not exist, so it does not match if_match", w->path);
    memory_close_fd(&w->matched_fd);
    w->matched_fd = path_open_file(&w->place, w->path, O_RDONLY, &w->matched, err);
    if (w->matched_fd < 0)
        return -1;
    w->rested = tag_has_rested(&w->matched);
    tag_begin(&tag, w->matched_fd, &w->matched);
    int named = tag_is_named(&tag, w->if_match, false, err);
    const char *present = named == 0 ? tag_text(&tag, err) : NULL;
    return named > 0 ? 0 : present ? stale(w, present, err) : -1;
}

/* In its turn, just before it is replaced: is it still what was compared? */
static int check_unchanged(struct writing *w, struct error *err)
{
    const struct stat matched = w->matched;
    w->place.exists = fstatat(w->place.folder_fd, w->place.name, &w->place.stat, AT_SYMLINK_NOFOLLOW) == 0;
    if (w->matched_fd >= 0 && w->rested && w->place.exists && tag_same_file(&w->place.stat, &matched))
        return 0;
    return check_match(w, err);
}

static int check_target(struct writing *w, struct error *err)
{
    if (w->place.exists && !S_ISREG(w->place.stat.st_mode))
        return error_set(err, ERROR_INVALID, "'%.200s' is %s", w->path, path_kind(w->place.stat.st_mode));
    if (w->place.exists && w->create_only)
        return error_set(err, w->refusal, "'%.200s' exists already: %s to replace it", w->path, w->cure);
    return check_match(w, err);
}

static int find_target(const struct file_call_context *call, struct writing *w, unsigned flags,
                       struct error *err)
{
    place_clear(&w->place);
    if (path_find(&call->root, w->path, flags, &w->place, err) < 0 ||
        path_check_file(&w->place, w->path, err) < 0)
        return -1;
    return check_target(w, err);
}

/* ---- the call ---- */

static json_t *answer(const struct writing *w)
{
    char text[SHA256_TEXT_SIZE];
    struct sha256 hash = w->hash;
    bool breaks = w->place.exists && w->place.stat.st_nlink > 1;
    sha256_end(&hash, text);
    json_t *ret = json_pack("{s:I, s:s, s:b, s:b}", "size", (json_int_t)w->size, "hash", text, "created",
                            !w->place.exists, "hard_link_broken", breaks);
    names_put(ret, "path", w->place.shown, strlen(w->place.shown));
    return ret;
}

static int put(const struct writing *w, int fd, const char *data, size_t length, struct error *err)
{
    for (size_t done = 0; done < length;) {
        ssize_t written = write(fd, data + done, length - done);
        if (written < 0 && errno != EINTR)
            return path_fail(err, errno, w->path, "cannot be written");
        done += written > 0 ? (size_t)written : 0;
    }
    return 0;
}

/* The bytes are all there. */
static int finish(const struct file_call_context *call, struct writing *w, struct replacement *r,
                  struct error *err)
{
    if (replacement_take_turn(r, call->turns, err) < 0 || check_unchanged(w, err) < 0)
        return -1;
    return replacement_finish(r, w->create_only, err);
}

static int replace(const struct file_call_context *call, struct writing *w, struct error *err)
{
    _cleanup_replacement_ struct replacement r = REPLACEMENT_INIT;
    sha256_begin(&w->hash);
    sha256_add(&w->hash, w->content.data, w->content.length);
    w->size = (int64_t)w->content.length;
    if (replacement_begin(&r, &w->place, w->path, err) < 0 ||
        put(w, r.fd, w->content.data, w->content.length, err) < 0)
        return -1;
    return finish(call, w, &r, err);
}

/* One that could not be read before either is let through. */
static int check_syntax(const struct file_call_context *call, struct writing *w, json_t *verdict,
                        struct error *err)
{
    _cleanup_buffer_ struct buffer before = BUFFER_INIT;
    struct stat stat;
    _cleanup_close_ int fd = w->place.exists ? path_open_file(&w->place, w->path, O_RDONLY, &stat, NULL) : -1;
    if (fd >= 0 && content_read(fd, w->content.length + BEFORE_MORE, &before, NULL) < 0)
        buffer_free(&before);
    return file_validate(call, path_name(w->path, &w->place), (struct bytes){ before.data, before.length },
                         (struct bytes){ buffer_text(&w->content), w->content.length }, verdict, err);
}

static int write_file(struct file_call_context *call, struct writing *w, json_t **ret, struct error *err)
{
    int64_t most = file_call_integer(call, "max_size", 5 << 20);
    if (find_target(call, w, 0, err) < 0 || file_call_input(call, (size_t)most, &w->content, err) < 0)
        return -1;
    json_auto_t *verdict = json_object();
    if (check_syntax(call, w, verdict, err) < 0)
        return -1;
    if (w->place.parents_missing && find_target(call, w, PATH_MAKE_PARENTS, err) < 0)
        return -1;
    if (replace(call, w, err) < 0)
        return -1;
    *ret = answer(w);
    json_object_update(*ret, verdict);
    return 0;
}

static struct writing begin(const struct file_call_context *call)
{
    return (struct writing){ .path = file_call_path(call, "path"),
                             .if_match = json_string_value(json_object_get(call->request, "if_match")),
                             .create_only = file_call_flag(call, "create_only"),
                             .refusal = ERROR_CONFLICT,
                             .cure = "set create_only to false",
                             .content = BUFFER_INIT,
                             .place = PLACE_INIT,
                             .matched_fd = -1 };
}

int file_write(struct file_call_context *call, json_t **ret, struct error *err)
{
    struct writing w = begin(call);
    int rc = write_file(call, &w, ret, err);
    writing_clear(&w);
    return rc;
}

/* ---- of any size ---- */

/* Ended by the end of the input: one that is cut ends this process instead. */
static int take_bytes(struct file_call_context *call, struct writing *w, int fd, struct error *err)
{
    enum { PIECE = 256 << 10 };
    _cleanup_free_ char *piece = xmalloc(PIECE);
    for (ssize_t got; (got = read(call->input, piece, PIECE)) != 0;) {
        if (got < 0 && errno != EINTR)
            return path_fail(err, errno, w->path, "the bytes to write do not come");
        if (got <= 0)
            continue;
        if (put(w, fd, piece, (size_t)got, err) < 0)
            return -1;
        sha256_add(&w->hash, piece, (size_t)got);
        w->size += got;
    }
    return 0;
}

static int upload(struct file_call_context *call, struct writing *w, json_t **ret, struct error *err)
{
    _cleanup_replacement_ struct replacement r = REPLACEMENT_INIT;
    if (find_target(call, w, 0, err) < 0)
        return -1;
    if (w->place.parents_missing && find_target(call, w, PATH_MAKE_PARENTS, err) < 0)
        return -1;
    if (replacement_begin(&r, &w->place, w->path, err) < 0)
        return -1;
    fcntl(call->input, F_SETPIPE_SZ, UPLOAD_PIPE);
    if (take_bytes(call, w, r.fd, err) < 0 || finish(call, w, &r, err) < 0)
        return -1;
    *ret = answer(w);
    return 0;
}

int file_upload(struct file_call_context *call, json_t **ret, struct error *err)
{
    struct writing w = begin(call);
    w.refusal = ERROR_PRECONDITION;
    w.cure = "leave out If-None-Match";
    sha256_begin(&w.hash);
    int rc = upload(call, &w, ret, err);
    writing_clear(&w);
    return rc;
}
