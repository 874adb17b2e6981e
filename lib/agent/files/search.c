/* Owns the search for names: {"pattern", "exclude_patterns", "at", "limit", "wait_ms", "max_bytes", "twice"}.
 * The tree is walked by handles, each folder's names in order, links never followed; a page goes on at the
 * path that "at" (base64) names. Paths are ordered folder by folder, so that a walk can begin anywhere and no
 * name that comes or goes meanwhile makes it miss or repeat another. */
#include "lib/agent/files/call.h"
#include "lib/agent/files/patterns.h"
#include "lib/agent/search/names.h"
#include "lib/base/base64.h"
#include "lib/base/clock.h"
#include "lib/base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#define PATH_LONGEST  (PATH_MAX - 1) /* what other calls take */
#define MATCH_COST    110
#define MATCHES_MOST  5000 /* an answer may have 50,000 JSON values */
#define ROOM_MOST     INT32_MAX
#define WAIT_MOST_MS  60000
#define NAMES_BYTES   (32u << 20) /* held at once, of all folders that the walk is in */
#define NAMES_MOST    16384       /* of one folder at a time */
#define NAMES_LEAST   256
#define NAME_OVERHEAD 48

struct search {
    struct file_call_context *call;
    struct glob *find, *exclude;
    struct buffer path; /* where the walk is: "a/b/" */
    char *at;           /* where it begins; "" = at the first */
    int64_t until_ms;
    size_t limit, room, used, held;
    json_t *matches;
    bool visited;     /* an entry was looked at: a page always gets on */
    char *next;       /* the first path that is not in this page */
    const char *over; /* why it ended there: "limit", "size", "time" */
    int64_t unreadable, too_deep;
    bool folder; /* a folder's own path matches, which is not told */
};

struct entry {
    unsigned char type;
    char name[];
};
/* Names of one folder, in order; where it has more than are held at a time, the first ones. */
struct names {
    struct entry **list;
    size_t count, capacity, most, bytes;
    bool cut;
};

/* ---- names of a folder ---- */

static void names_clear(struct search *s, struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        free(n->list[i]);
    n->count = 0;
    s->held -= n->bytes;
    n->bytes = 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp((*(struct entry *const *)a)->name, (*(struct entry *const *)b)->name);
}

static size_t size_of(const struct entry *entry)
{
    return strlen(entry->name) + NAME_OVERHEAD;
}

static void keep_first(struct search *s, struct names *n)
{
    if (n->count > 0)
        qsort(n->list, n->count, sizeof *n->list, compare);
    for (; n->count > n->most; n->count--) {
        struct entry *last = n->list[n->count - 1];
        n->bytes -= size_of(last);
        s->held -= size_of(last);
        free(last);
        n->cut = true;
    }
}

static void add_name(struct search *s, struct names *n, const struct dirent *read)
{
    if (n->cut && strcmp(read->d_name, n->list[n->most - 1]->name) > 0)
        return;
    if (n->count == 2 * n->most)
        keep_first(s, n);
    if (n->count == n->capacity) {
        n->capacity = n->capacity ? 2 * n->capacity : 32;
        n->list = xreallocarray(n->list, n->capacity, sizeof *n->list);
    }
    size_t length = strlen(read->d_name);
    struct entry *entry = xmalloc(sizeof *entry + length + 1);
    entry->type = read->d_type;
    memcpy(entry->name, read->d_name, length + 1);
    n->list[n->count++] = entry;
    n->bytes += size_of(entry);
    s->held += size_of(entry);
}

/* from: the first name wanted; behind: not that one itself. */
static bool read_names(struct search *s, int fd, const char *from, bool behind, struct names *n)
{
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = own < 0 ? NULL : fdopendir(own);
    if (!folder)
        return false;
    size_t left = s->held < NAMES_BYTES ? (NAMES_BYTES - s->held) / 128 : 0;
    n->most = left < NAMES_LEAST ? NAMES_LEAST : left > NAMES_MOST ? NAMES_MOST : left;
    n->cut = false;
    for (struct dirent *read; (read = readdir(folder)) != NULL;) {
        int order = strcmp(read->d_name, from);
        if (strcmp(read->d_name, ".") != 0 && strcmp(read->d_name, "..") != 0 &&
            (order > 0 || (order == 0 && !behind)))
            add_name(s, n, read);
    }
    closedir(folder);
    keep_first(s, n);
    return true;
}

/* ---- what is found ---- */

static void stop_at(struct search *s, const char *why)
{
    s->over = why;
    s->next = xstrdup(buffer_text(&s->path));
}

/* s->path is the whole path. A link to a folder counts as one, and folders are not told. */
static void found(struct search *s, int fd, const char *name)
{
    struct stat stat = { 0 };
    const char *path = buffer_text(&s->path);
    if (fstatat(fd, name, &stat, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(stat.st_mode) ||
        (S_ISLNK(stat.st_mode) && path_leads_to_folder(&s->call->root, path)))
        return;
    size_t cost =
        (file_call_flag(s->call, "twice") ? 2 : 1) * (MATCH_COST + 2 * utf8_json_size(path, s->path.length));
    bool full = json_array_size(s->matches) >= s->limit;
    if (full || (s->used + cost > s->room && json_array_size(s->matches) > 0)) {
        stop_at(s, full ? "limit" : "size");
        return;
    }
    s->used += cost;
    json_t *match =
        json_pack("{s:s, s:I}", "type", path_type(stat.st_mode), "size", (json_int_t)stat.st_size);
    names_put(match, "path", path, s->path.length);
    json_array_append_new(s->matches, match);
}

/* ---- the walk ---- */

struct level {
    int fd;
    struct glob_place find, exclude; /* at the beginning of a name in here */
};

static void level_clear(struct level *level)
{
    memory_close_fd(&level->fd);
    glob_place_clear(&level->find);
    glob_place_clear(&level->exclude);
}

static void walk(struct search *s, struct level *level, const char *at);

static bool covers(struct search *s, const struct level *level, const char *name, struct glob_place *ret)
{
    glob_go_on(s->exclude, &level->exclude, name, strlen(name), ret);
    return glob_accepts(s->exclude, ret);
}

static void look_at_file(struct search *s, const struct level *level, const char *name)
{
    struct glob_place place = { 0 };
    glob_go_on(s->find, &level->find, name, strlen(name), &place);
    if (glob_accepts(s->find, &place) && !covers(s, level, name, &place))
        found(s, level->fd, name);
    glob_place_clear(&place);
}

/* s->path is the folder's. */
static void enter(struct search *s, struct level *level, const char *name, const char *at)
{
    struct glob_place place = { 0 };
    struct level below = { .fd = -1 };
    size_t length = strlen(name);
    bool covered = covers(s, level, name, &place);
    glob_go_on(s->exclude, &place, "/", 1, &below.exclude);
    glob_go_on(s->find, &level->find, name, length, &place);
    s->folder |= !covered && glob_accepts(s->find, &place);
    glob_go_on(s->find, &place, "/", 1, &below.find);
    glob_place_clear(&place);
    buffer_append_char(&s->path, '/');
    if (!covered && !glob_is_dead(&below.find)) {
        below.fd = openat(level->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below.fd >= 0)
            walk(s, &below, at);
        else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) /* it is another thing by now */
            s->unreadable++;
    }
    level_clear(&below);
}

static bool is_folder(int fd, const struct entry *entry)
{
    struct stat stat;
    if (entry->type != DT_UNKNOWN)
        return entry->type == DT_DIR;
    return fstatat(fd, entry->name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(stat.st_mode);
}

static void visit(struct search *s, struct level *level, const struct entry *entry, const char *at)
{
    size_t before = s->path.length;
    buffer_append_text(&s->path, entry->name);
    if (s->visited && clock_boottime_ms() >= s->until_ms)
        stop_at(s, "time");
    else if (s->path.length > PATH_LONGEST)
        s->too_deep++;
    else if (!is_folder(level->fd, entry))
        look_at_file(s, level, entry->name);
    else if (!names_is_hidden(entry->name))
        enter(s, level, entry->name, at);
    s->visited = true;
    s->path.length = before;
}

/* at: below this folder, where the walk begins; "" = with its first entry. */
static void walk(struct search *s, struct level *level, const char *at)
{
    struct names n = { 0 };
    size_t length = strcspn(at, "/");
    _cleanup_free_ char *from = xstrndup(at, length);
    const char *rest = at[length] ? at + length + 1 : "";
    bool behind = false;
    do {
        names_clear(s, &n);
        if (!read_names(s, level->fd, from, behind, &n)) {
            s->unreadable++;
            break;
        }
        for (size_t i = 0; i < n.count && !s->over; i++) {
            bool is_on_the_way = !behind && length > 0 && !strcmp(n.list[i]->name, from);
            if (is_on_the_way && *rest && !is_folder(level->fd, n.list[i]))
                continue; /* what lies below comes behind it */
            visit(s, level, n.list[i], is_on_the_way ? rest : "");
        }
        if (n.cut) {
            free(from);
            from = xstrdup(n.list[n.count - 1]->name);
            behind = true;
        }
    } while (n.cut && !s->over);
    names_clear(s, &n);
    free(n.list);
}

/* ---- the whole ---- */

static json_t *tell(struct search *s)
{
    _cleanup_buffer_ struct buffer next = BUFFER_INIT;
    if (s->next)
        buffer_append_base64(&next, s->next, strlen(s->next));
    return json_pack("{s:O, s:o, s:s?, s:I, s:I, s:b}", "matches", s->matches, "next_cursor",
                     s->next ? json_string(buffer_text(&next)) : json_null(), "over", s->over, "unreadable",
                     (json_int_t)s->unreadable, "too_deep", (json_int_t)s->too_deep, "folder", s->folder);
}

static int read_at(struct search *s, struct error *err)
{
    _cleanup_buffer_ struct buffer at = BUFFER_INIT;
    const char *text = file_call_path(s->call, "at");
    if (!base64_decode(text, strlen(text), &at) || at.length > PATH_LONGEST + NAME_MAX ||
        (at.length > 0 && memchr(at.data, '\0', at.length)))
        return error_set(err, ERROR_INVALID, "cursor: it is none of this operation's");
    s->at = xstrdup(buffer_text(&at));
    return 0;
}

static int run(struct search *s, json_t **ret, struct error *err)
{
    if (read_at(s, err) < 0 || glob_add(s->find, "pattern", file_call_path(s->call, "pattern"), err) < 0 ||
        patterns_add_all(s->exclude, s->call, "exclude_patterns", err) < 0)
        return -1;
    struct level root = { .fd = openat(s->call->root.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
    if (root.fd < 0)
        return path_fail(err, errno, ".", "cannot be searched");
    glob_begin(s->find, &root.find);
    glob_begin(s->exclude, &root.exclude);
    walk(s, &root, s->at);
    level_clear(&root);
    *ret = tell(s);
    return 0;
}

int file_search(struct file_call_context *call, json_t **ret, struct error *err)
{
    struct search s = { .call = call,
                        .find = glob_new(GLOB_FIND),
                        .exclude = glob_new(GLOB_EXCLUDE),
                        .limit = (size_t)file_call_bounded(call, "limit", 50, 1, MATCHES_MOST),
                        .room = (size_t)file_call_bounded(call, "max_bytes", 90000, 1, ROOM_MOST),
                        .until_ms =
                            clock_boottime_ms() + file_call_bounded(call, "wait_ms", 25000, 1, WAIT_MOST_MS),
                        .matches = json_array() };
    int rc = run(&s, ret, err);
    glob_free(s.find);
    glob_free(s.exclude);
    buffer_free(&s.path);
    json_decref(s.matches);
    free(s.next);
    free(s.at);
    return rc;
}
