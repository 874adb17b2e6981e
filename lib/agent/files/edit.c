/* Owns editing a file: {"path", "edits": [{"old", "new", "replace_all", "occurrence"}], "dry_run",
 * "if_match", "validate", "max_size", "max_bytes", "twice"}. lib/agent/edit knows how; here a file becomes
 * bytes and the result a file again, if nobody changed it meanwhile. */
#include "lib/agent/edit/edit.h"

#include "lib/agent/edit/diff.h"
#include "lib/agent/files/call.h"
#include "lib/agent/files/content.h"
#include "lib/agent/files/replace.h"
#include "lib/agent/files/validate.h"
#include "lib/agent/search/names.h"
#include "lib/base/io.h"

#include <errno.h>
#include <fcntl.h>

#define EDITS_MAX 1000

struct editing {
    const char *path;
    struct place place;
    struct stat stat;
    struct buffer before;
    struct edit *edits;
    size_t count;
    struct edit_result result;
};

static void editing_clear(struct editing *e)
{
    place_clear(&e->place);
    buffer_free(&e->before);
    free(e->edits);
    edit_result_clear(&e->result);
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
        return error_set(err, ERROR_CONFLICT, "'%.200s' changed since it was read: its hash is now %s",
                         e->path, present);
    return 0;
}

static int load(const struct file_call_context *call, struct editing *e, struct error *err)
{
    size_t most = (size_t)file_call_integer(call, "max_size", 5 << 20);
    if (path_find_existing(&call->root, e->path, 0, &e->place, err) < 0)
        return -1;
    _cleanup_close_ int fd = path_open_file(&e->place, e->path, O_RDONLY, &e->stat, err);
    if (fd < 0 || content_read(fd, most, &e->before, err) < 0)
        return -1;
    return check_before(call, e, err);
}

static bool is_unchanged(const struct editing *e)
{
    struct stat now;
    return fstatat(e->place.folder_fd, e->place.name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
           now.st_ino == e->stat.st_ino && now.st_size == e->stat.st_size &&
           now.st_mtim.tv_sec == e->stat.st_mtim.tv_sec && now.st_mtim.tv_nsec == e->stat.st_mtim.tv_nsec;
}

static int store(struct editing *e, struct error *err)
{
    _cleanup_replacement_ struct replacement r = REPLACEMENT_INIT;
    if (replacement_begin(&r, &e->place, e->path, err) < 0)
        return -1;
    _cleanup_error_ struct error problem = ERROR_INIT;
    if (io_write_all(r.fd, e->result.bytes.data, e->result.bytes.length, &problem) < 0)
        return path_fail(err, problem.code == ERROR_FULL ? ENOSPC : EIO, e->path, "cannot be written");
    if (!is_unchanged(e))
        return error_set(err, ERROR_CONFLICT, "'%.200s' changed while it was edited: read it again", e->path);
    return replacement_finish(&r, false, err);
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

static int edit_file(const struct file_call_context *call, struct editing *e, json_t **ret, struct error *err)
{
    size_t most = (size_t)file_call_integer(call, "max_size", 5 << 20);
    json_auto_t *verdict = json_object();
    if (take_edits(call, e, err) < 0 || load(call, e, err) < 0 ||
        edit_apply(bytes_of(&e->before), e->edits, e->count, most, &e->result, err) < 0)
        return -1;
    bool changed = !bytes_equal(bytes_of(&e->before), bytes_of(&e->result.bytes));
    if (changed && file_validate(call, path_name(e->path, &e->place), bytes_of(&e->before),
                                 bytes_of(&e->result.bytes), verdict, err) < 0)
        return -1;
    if (changed && !file_call_flag(call, "dry_run") && store(e, err) < 0)
        return -1;
    *ret = answer(call, e, changed);
    json_object_update(*ret, verdict);
    return 0;
}

int file_edit(struct file_call_context *call, json_t **ret, struct error *err)
{
    struct editing e = { .path = file_call_path(call, "path"),
                         .place = PLACE_INIT,
                         .before = BUFFER_INIT,
                         .result = EDIT_RESULT_INIT };
    int rc = edit_file(call, &e, ret, err);
    editing_clear(&e);
    return rc;
}
