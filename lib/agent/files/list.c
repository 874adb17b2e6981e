/* Owns the listing of one folder: {"path", "limit", "after", "max_bytes", "twice"}. Folders come before
 * files, each by the bytes of their names; a page goes on behind the entry that "after" (base64) names. */
#include "lib/agent/files/call.h"
#include "lib/agent/search/names.h"
#include "lib/base/base64.h"
#include "lib/base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#define ENTRY_COST 130 /* of an entry in the answer, without its name */

/* key: 'D' or 'F', then the name: entries sort by it. */
struct listing {
    const struct file_call_context *call;
    const char *path;
    struct place place;
    char **keys;
    size_t count, capacity;
};

static void listing_clear(struct listing *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->keys[i]);
    free(l->keys);
    place_clear(&l->place);
}

/* A link counts as what it leads to, inside of the workspace. */
static bool leads_to_folder(const struct listing *l, const char *name)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", l->place.shown, name);
    return path_leads_to_folder(&l->call->root, path);
}

static bool is_folder(const struct listing *l, int fd, const struct dirent *entry)
{
    struct stat stat;
    if (entry->d_type == DT_DIR)
        return true;
    if (entry->d_type == DT_LNK)
        return leads_to_folder(l, entry->d_name);
    if (entry->d_type != DT_UNKNOWN || fstatat(fd, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    return S_ISDIR(stat.st_mode) || (S_ISLNK(stat.st_mode) && leads_to_folder(l, entry->d_name));
}

static void add(struct listing *l, bool folder, const char *name)
{
    if (l->count == l->capacity) {
        l->capacity = l->capacity ? 2 * l->capacity : 64;
        l->keys = xreallocarray(l->keys, l->capacity, sizeof *l->keys);
    }
    l->keys[l->count++] = xasprintf("%c%s", folder ? 'D' : 'F', name);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int collect(struct listing *l, int fd, struct error *err)
{
    DIR *folder = fdopendir(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!folder)
        return path_fail(err, errno, l->path, "cannot be listed");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !names_is_hidden(entry->d_name))
            add(l, is_folder(l, fd, entry), entry->d_name);
    closedir(folder);
    if (l->count > 0)
        qsort(l->keys, l->count, sizeof *l->keys, compare);
    return 0;
}

/* ---- the page ---- */

/* In a folder whose own path is not UTF-8, no name of it can be addressed otherwise. */
static void put_address(const struct listing *l, json_t *entry, const char *name)
{
    bool at_root = strcmp(l->place.shown, ".") == 0;
    _cleanup_buffer_ struct buffer exact = BUFFER_INIT;
    _cleanup_free_ char *path = at_root ? xstrdup(name) : xasprintf("%s/%s", l->place.shown, name);
    if (utf8_is_valid(path, strlen(path)))
        return;
    buffer_append_base64(&exact, path, strlen(path));
    json_object_set_new(entry, "path_base64", json_string(buffer_text(&exact)));
}

/* What its bytes take in the answer, beside its name as it is shown. */
static size_t address_cost(const struct listing *l, const char *name)
{
    bool plain = utf8_is_valid(name, strlen(name)) && utf8_is_valid(l->place.shown, strlen(l->place.shown));
    return plain ? 0 : 3 * (strlen(name) + strlen(l->place.shown)) + 40;
}

static json_t *describe(const struct listing *l, int fd, const char *key)
{
    struct stat stat = { 0 };
    bool known = fstatat(fd, key + 1, &stat, AT_SYMLINK_NOFOLLOW) == 0;
    json_t *entry = json_object();
    names_put(entry, "name", key + 1, strlen(key + 1));
    put_address(l, entry, key + 1);
    json_object_set_new(entry, "directory", json_boolean(key[0] == 'D'));
    json_object_set_new(entry, "type", json_string(known ? path_type(stat.st_mode) : "other"));
    json_object_set_new(entry, "size", json_integer(stat.st_size));
    json_object_set_new(entry, "modified_us",
                        json_integer(stat.st_mtim.tv_sec * 1000000LL + stat.st_mtim.tv_nsec / 1000));
    return entry;
}

static size_t first_behind(const struct listing *l, const char *after)
{
    size_t low = 0, high = l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(l->keys[middle], after) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* "" where the page begins with the first entry. */
static int read_after(const struct file_call_context *call, struct buffer *ret, struct error *err)
{
    const char *text = file_call_path(call, "after");
    if (!base64_decode(text, strlen(text), ret) || (ret->length > 0 && memchr(ret->data, '\0', ret->length)))
        return error_set(err, ERROR_INVALID, "cursor: it is none of this operation's");
    return 0;
}

static json_t *page(const struct listing *l, int fd, size_t first, size_t limit, size_t room)
{
    size_t times = file_call_flag(l->call, "twice") ? 2 : 1, at = first, used = 0;
    json_t *entries = json_array();
    for (; at < l->count && at - first < limit; at++) {
        used += times * (ENTRY_COST + 2 * utf8_json_size(l->keys[at], strlen(l->keys[at])) +
                         address_cost(l, l->keys[at] + 1));
        if (used > room && at > first)
            break;
        json_array_append_new(entries, describe(l, fd, l->keys[at]));
    }
    _cleanup_buffer_ struct buffer last = BUFFER_INIT;
    bool more = at < l->count && at > first;
    if (more)
        buffer_append_base64(&last, l->keys[at - 1], strlen(l->keys[at - 1]));
    json_t *ret = json_pack("{s:o, s:I, s:o}", "entries", entries, "total", (json_int_t)l->count,
                            "next_cursor", more ? json_string(buffer_text(&last)) : json_null());
    names_put(ret, "path", l->place.shown, strlen(l->place.shown));
    return ret;
}

static int list(struct listing *l, json_t **ret, struct error *err)
{
    _cleanup_buffer_ struct buffer after = BUFFER_INIT;
    int64_t limit = file_call_integer(l->call, "limit", 500);
    int64_t room = file_call_integer(l->call, "max_bytes", 90000);
    if (path_find_existing(&l->call->root, l->path, 0, &l->place, err) < 0 ||
        read_after(l->call, &after, err) < 0)
        return -1;
    _cleanup_close_ int fd = path_open_folder(&l->place, l->path, err);
    if (fd < 0 || collect(l, fd, err) < 0)
        return -1;
    *ret = page(l, fd, first_behind(l, buffer_text(&after)), limit > 0 ? (size_t)limit : 1,
                room > 0 ? (size_t)room : 1);
    return 0;
}

int file_list(struct file_call_context *call, json_t **ret, struct error *err)
{
    struct listing l = { .call = call, .path = file_call_path(call, "path"), .place = PLACE_INIT };
    int rc = list(&l, ret, err);
    listing_clear(&l);
    return rc;
}
