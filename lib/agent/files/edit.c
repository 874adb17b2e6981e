/* Owns editing a file: {"path", "edits": [{"old", "new", "replace_all", "occurrence"}], "dry_run",
 * "if_match", "validate", "max_size", "max_bytes", "twice"}. lib/agent/edit knows how; here a file becomes
 * bytes and the result a file again. Where somebody changed it meanwhile, it all happens anew with what is
 * there now. */
#include "lib/agent/edit/edit.h"

#include "lib/agent/edit/diff.h"
#include "lib/agent/files/call.h"
#include "lib/agent/files/content.h"
#include "lib/agent/files/replace.h"
#include "lib/agent/files/tag.h"
#include "lib/agent/files/turn.h"
#include "lib/agent/files/validate.h"
#include "lib/agent/search/names.h"
#include "lib/base/io.h"

#include <errno.h>
#include <fcntl.h>

#define EDITS_MAX 1000
#define TRIES     6
#define ALONE_AFTER                                                                                          \
    3 /* tries: then other calls wait, so that it only fails where a command writes on and on */

struct editing {
    const char *path;
    bool alone; /* in its turn from before it was read */
    struct place place;
    int fd; /* the file that was read, held so that its number stays its own */
    struct stat stat;
    bool rested; /* before it was read */
    struct buffer before;
    struct edit *edits;
    size_t count;
    struct edit_result result;
};

static void forget_file(struct editing *e)
{
    memory_close_fd(&e->fd);
    place_clear(&e->place);
    buffer_free(&e->before);
    edit_result_clear(&e->result);
}

static void editing_clear(struct editing *e)
{
    forget_file(e);
    free(e->edits);
}

static struct bytes bytes_of(struct buffer *buffer)
{
    return (struct bytes){ buffer_text(buffer), buffer->length };
}

/* ---- what is asked for ---- */

static int take_edit(struct edit *edit, const json_t *row, struct error *err)
{
    const json_t *old = json_object_get(row, "old"), *new = json_object_get(row, "new");
    json_int_t occurrence = json_integer_value(json_object_get(row, "occurrence"));
    if (!json_is_string(old) || !json_is_string(new) || occurrence < 0)
        return error_set(err, ERROR_INVALID, "an edit needs old and new");
    *edit = (struct edit){ .old = { json_string_value(old), json_string_length(old) },
                           .new = { json_string_value(new), json_string_length(new) },
                           .replace_all = json_is_true(json_object_get(row, "replace_all")),
                           .occurrence = (size_t)occurrence };
    return 0;
}

static int take_edits(const struct file_call_context *call, struct editing *e, struct error *err)
{
    const json_t *rows = json_object_get(call->request, "edits"), *row;
    size_t index;
    if (json_array_size(rows) == 0 || json_array_size(rows) > EDITS_MAX)
        return error_set(err, ERROR_INVALID, "there must be 1 to %d edits", EDITS_MAX);
    e->edits = xcalloc(json_array_size(rows), sizeof *e->edits);
    e->count = json_array_size(rows);
    json_array_foreach(rows, index, row)
        if (take_edit(&e->edits[index], row, err) < 0)
            return -1;
    return 0;
}

/* ---- the file ---- */

static void hash_of(const struct buffer *bytes, char text[static SHA256_TEXT_SIZE])
{
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, bytes->data, bytes->length);
    sha256_end(&hash, text);
}

static int check_before(const struct file_call_context *call, const struct editing *e, struct error *err)
{
    const char *wanted = file_call_path(call, "if_match");
    const char *binary = content_binary(e->before.data, e->before.length);
    char present[SHA256_TEXT_SIZE];
    if (binary)
        return error_set(err, ERROR_INVALID, "'%.200s' is not text but %s: it is not edited", e->path,
                         binary);
    hash_of(&e->before, present);
    if (*wanted && strcmp(wanted, present) != 0)
        return error_set(err, ERROR_CONFLICT,
                         "'%.200s' changed since it was read: read it again, and make your change on what is "
                         "there now (%s)",
                         e->path, present);
    return 0;
}

static int load(const struct file_call_context *call, struct editing *e, struct error *err)
{
    size_t most = (size_t)file_call_integer(call, "max_size", 5 << 20);
    if (path_find_existing(&call->root, e->path, 0, &e->place, err) < 0 ||
        (e->alone && turn_take(call->turns, &e->place, e->path, err) < 0))
        return -1;
    e->fd = path_open_file(&e->place, e->path, O_RDONLY, &e->stat, err);
    e->rested = e->fd >= 0 && tag_has_rested(&e->stat);
    if (e->fd < 0 || content_read(e->fd, most, &e->before, err) < 0)
        return -1;
    return check_before(call, e, err);
}

static bool has_same_bytes(struct editing *e)
{
    _cleanup_buffer_ struct buffer present = BUFFER_INIT;
    struct stat stat;
    _cleanup_close_ int fd = path_open_file(&e->place, e->path, O_RDONLY, &stat, NULL);
    return fd >= 0 && content_read(fd, e->before.length, &present, NULL) == 0 &&
           bytes_equal(bytes_of(&present), bytes_of(&e->before));
}

static bool is_unchanged(struct editing *e)
{
    struct stat now;
    return fstatat(e->place.folder_fd, e->place.name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
           tag_same_file(&now, &e->stat) && (e->rested || has_same_bytes(e));
}

/* 1 = somebody changed the file meanwhile. */
static int store(const struct file_call_context *call, struct editing *e, struct error *err)
{
    _cleanup_replacement_ struct replacement r = REPLACEMENT_INIT;
    if (replacement_begin(&r, &e->place, e->path, err) < 0)
        return -1;
    _cleanup_error_ struct error problem = ERROR_INIT;
    if (io_write_all(r.fd, e->result.bytes.data, e->result.bytes.length, &problem) < 0)
        return path_fail(err, problem.code == ERROR_FULL ? ENOSPC : EIO, e->path, "cannot be written");
    if (replacement_take_turn(&r, call->turns, err) < 0)
        return -1;
    return is_unchanged(e) ? replacement_finish(&r, false, err) : 1;
}

/* ---- the call ---- */

static json_t *diff_of(const struct file_call_context *call, struct editing *e)
{
    _cleanup_buffer_ struct buffer diff = BUFFER_INIT, shown = BUFFER_INIT;
    int64_t room = file_call_integer(call, "max_bytes", 90000);
    /* Encoded, a line end has two bytes and a quote too. */
    size_t most = (size_t)(room > 1024 ? room : 1024) / (file_call_flag(call, "twice") ? 3 : 2) * 3 / 4;
    diff_append(bytes_of(&e->before), bytes_of(&e->result.bytes), e->result.spans, e->result.span_count,
                e->place.shown, most, &diff);
    buffer_append_utf8(&shown, buffer_text(&diff), diff.length);
    return json_stringn(buffer_text(&shown), shown.length);
}

static json_t *answer(const struct file_call_context *call, struct editing *e, bool changed)
{
    char hash[SHA256_TEXT_SIZE];
    hash_of(&e->result.bytes, hash);
    json_t *ret = json_pack("{s:b, s:I, s:I, s:I, s:I, s:s, s:o}", "changed", changed, "exact",
                            (json_int_t)e->result.exact, "fuzzy", (json_int_t)e->result.fuzzy, "replaced",
                            (json_int_t)e->result.replaced, "size", (json_int_t)e->result.bytes.length,
                            "hash", hash, "diff", diff_of(call, e));
    names_put(ret, "path", e->place.shown, strlen(e->place.shown));
    return ret;
}

/* 1 = somebody changed the file meanwhile. */
static int try(const struct file_call_context *call, struct editing *e, json_t **ret, struct error *err)
{
    size_t most = (size_t)file_call_integer(call, "max_size", 5 << 20);
    json_auto_t *verdict = json_object();
    if (load(call, e, err) < 0 ||
        edit_apply(bytes_of(&e->before), e->edits, e->count, most, &e->result, err) < 0)
        return -1;
    bool changed = !bytes_equal(bytes_of(&e->before), bytes_of(&e->result.bytes));
    if (!changed)
        file_validate_nothing(call, verdict);
    else if (file_validate(call, path_name(e->path, &e->place), bytes_of(&e->before),
                           bytes_of(&e->result.bytes), verdict, err) < 0)
        return -1;
    int rc = changed && !file_call_flag(call, "dry_run") ? store(call, e, err) : 0;
    if (rc != 0)
        return rc;
    *ret = answer(call, e, changed);
    json_object_update(*ret, verdict);
    return 0;
}

/* if_match is compared anew each time. */
static int edit_file(const struct file_call_context *call, struct editing *e, json_t **ret, struct error *err)
{
    int rc = take_edits(call, e, err) < 0 ? -1 : 1;
    for (int tries = 0; rc > 0 && tries < TRIES; tries++) {
        forget_file(e);
        e->alone = tries >= ALONE_AFTER;
        rc = try(call, e, ret, err);
    }
    if (rc > 0)
        return error_set(err, ERROR_CONFLICT, "'%.200s' changes again and again: try later", e->path);
    return rc;
}

int file_edit(struct file_call_context *call, json_t **ret, struct error *err)
{
    struct editing e = { .path = file_call_path(call, "path"),
                         .place = PLACE_INIT,
                         .fd = -1,
                         .before = BUFFER_INIT,
                         .result = EDIT_RESULT_INIT };
    int rc = edit_file(call, &e, ret, err);
    editing_clear(&e);
    return rc;
}
