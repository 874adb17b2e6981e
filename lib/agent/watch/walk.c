/* Owns looking into folders: a watch first, then what is there, so that nothing is missed between the two.
 * Each folder is opened by the names that lead to it from the workspace on, never through a link. Must not
 * know what the kernel's events mean. */
#include "lib/agent/watch/internal.h"
#include "lib/base/clock.h"
#include "lib/base/fnv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>

/* ---- what was met ---- */

#define MET_MOST 65536

/* Two names with one key would make one creation not told. */
static uint64_t key_of(int wd, const char *name)
{
    uint64_t key = fnv_mix(fnv_mix(FNV_BEGIN, &wd, sizeof wd), name, strlen(name));
    return key > 1 ? key : 2;
}

enum { SLOT_EMPTY, SLOT_TAKEN };

static uint64_t *find_slot(const struct met *met, uint64_t key, bool free_too)
{
    for (size_t at = key, left = met->capacity; left > 0; at++, left--) {
        uint64_t *slot = &met->slots[at & (met->capacity - 1)];
        if (*slot == key || (free_too && *slot <= SLOT_TAKEN))
            return slot;
        if (*slot == SLOT_EMPTY)
            return NULL;
    }
    return NULL;
}

static void grow(struct met *met)
{
    struct met larger = { .capacity = met->capacity ? 2 * met->capacity : 256, .count = met->count };
    larger.slots = xcalloc(larger.capacity, sizeof *larger.slots);
    for (size_t i = 0; i < met->capacity; i++)
        if (met->slots[i] > SLOT_TAKEN)
            *find_slot(&larger, met->slots[i], true) = met->slots[i];
    free(met->slots);
    *met = larger;
}

void met_add(struct met *met, int wd, const char *name)
{
    if (met->count >= MET_MOST || met_has(met, wd, name)) /* some will be told twice */
        return;
    if (2 * met->count >= met->capacity)
        grow(met);
    *find_slot(met, key_of(wd, name), true) = key_of(wd, name);
    met->count++;
}

bool met_has(const struct met *met, int wd, const char *name)
{
    return met->count > 0 && find_slot(met, key_of(wd, name), false) != NULL;
}

bool met_take(struct met *met, int wd, const char *name)
{
    uint64_t *slot = met->count ? find_slot(met, key_of(wd, name), false) : NULL;
    if (!slot)
        return false;
    *slot = SLOT_TAKEN;
    return true;
}

void met_clear(struct met *met)
{
    free(met->slots);
    *met = (struct met){ 0 };
}

/* ---- one folder ---- */

/* Down by names alone. -1 = errno. */
static int open_path(const struct watcher *w, const char *path, int flags)
{
    _cleanup_free_ char *names = xstrdup(path);
    _cleanup_close_ int folder = fcntl(w->root->fd, F_DUPFD_CLOEXEC, 3);
    char *state = NULL;
    for (char *name = strtok_r(names, "/", &state); name && folder >= 0; name = strtok_r(NULL, "/", &state)) {
        int next = openat(folder, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
        int problem = errno;
        close(folder);
        folder = next;
        errno = problem;
    }
    return folder < 0 ? -1 : openat(folder, ".", flags | O_DIRECTORY | O_CLOEXEC);
}

static int too_many(const struct watcher *w, struct error *err)
{
    return error_set(err, ERROR_TOO_MANY,
                     "ENOSPC: '%.200s' cannot be watched: no more folders can be watched on this system "
                     "(fs.inotify.max_user_watches): watch a smaller folder, or one that is not recursive",
                     w->base);
}

/* Told once for each walk. */
static void tell_limit(struct watcher *w, const char *path)
{
    if (!w->is_limited)
        pending_tell(w->pending, CHANGE_OVERFLOW, WHY_WATCHES, path, clock_boottime_us());
    w->is_limited = true;
}

static bool is_missing(int number)
{
    return number == ENOENT || number == ENOTDIR || number == ELOOP;
}

/* What went away meanwhile is no problem. 0 = it is skipped. */
static int cannot_watch(struct watcher *w, const char *path, int number, struct error *err)
{
    bool is_limit = number == ENOSPC || number == ENOMEM || number == EMFILE || number == ENFILE;
    if (is_missing(number))
        return 0;
    if (is_limit && err)
        return too_many(w, err);
    if (is_limit)
        tell_limit(w, path);
    else
        pending_tell(w->pending, CHANGE_OVERFLOW, WHY_UNREADABLE, path, clock_boottime_us());
    return 0;
}

/* The folder that is open, by no path: a watch's number, or -1 = errno. */
static int add_watch(const struct watcher *w, int folder, uint32_t mask)
{
    return inbox_watch(w->inbox, folder, w->root->fd, mask);
}

static bool is_folder(int folder, const struct dirent *entry)
{
    struct stat stat;
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type == DT_DIR;
    return fstatat(folder, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(stat.st_mode);
}

/* ---- all below ---- */

struct task {
    STAILQ_ENTRY(task) next;
    int parent; /* its watch: the folder may go meanwhile */
    char name[];
};
STAILQ_HEAD(tasks, task);

static void add_task(struct tasks *tasks, struct folder *parent, const char *name)
{
    size_t length = strlen(name) + 1;
    struct task *task = xmalloc(sizeof *task + length);
    task->parent = parent->wd;
    memcpy(task->name, name, length);
    STAILQ_INSERT_TAIL(tasks, task, next);
}

static bool was_excluded(const struct watcher *w, const char *path)
{
    _cleanup_free_ char *before = xasprintf("%s%s", w->was, path + w->is_length);
    return watcher_excludes(w, before);
}

/* By its present name. It is gone for who was told of it by another one. */
static void exclude(struct watcher *w, struct folder *parent, const char *name, bool is_dir, const char *path)
{
    struct folder *folder = folders_child(w->folders, parent, name);
    if (folder)
        folders_drop(w->folders, folder, false);
    if (w->was && !was_excluded(w, path))
        pending_add(w->pending, CHANGE_REMOVE, is_dir ? CHANGE_FOLDER : 0, path, clock_boottime_us());
}

static void meet(struct watcher *w, struct folder *folder, const char *name, bool is_dir, bool told,
                 struct tasks *tasks)
{
    _cleanup_buffer_ struct buffer path = BUFFER_INIT;
    folders_path(folder, name, &path);
    if (watcher_excludes(w, buffer_text(&path))) {
        exclude(w, folder, name, is_dir, buffer_text(&path));
        return;
    }
    told |= w->was && was_excluded(w, buffer_text(&path));
    if (told)
        pending_add(w->pending, CHANGE_CREATE, is_dir ? CHANGE_FOLDER : 0, buffer_text(&path),
                    clock_boottime_us());
    if (told || !w->was)
        met_add(&w->met, folder->wd, name);
    if (is_dir && w->recursive)
        add_task(tasks, folder, name);
}

/* Takes fd. */
static void look_into(struct watcher *w, struct folder *folder, int fd, bool told, struct tasks *tasks)
{
    DIR *entries = fdopendir(fd);
    if (!entries) {
        close(fd);
        cannot_watch(w, w->base, EMFILE, NULL);
        return;
    }
    folder->untold &= !told;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            meet(w, folder, entry->d_name, is_folder(dirfd(entries), entry), told, tasks);
    closedir(entries);
}

static bool is_known_elsewhere(const struct watcher *w, int wd, const struct folder *parent, const char *name)
{
    const struct folder *folder = folders_find(w->folders, wd);
    return folder && (folder->parent != parent || strcmp(folder->name, name) != 0);
}

/* It has come here while the walk goes on, or the kernel knows where it came from: that is about to be said.
 * A walk that followed it might go round for ever. */
static bool is_in_doubt(const struct watcher *w, int wd, const struct folder *parent, const char *name,
                        bool told)
{
    const struct folder *folder = folders_find(w->folders, wd);
    if (!is_known_elsewhere(w, wd, parent, name))
        return false;
    return folders_is_below(parent, folder) || (told ? !watcher_moves(w, wd) : folder->round == w->round);
}

static struct folder *put_folder(struct watcher *w, struct folder *parent, const char *name, int wd)
{
    bool is_new = !folders_find(w->folders, wd) || is_known_elsewhere(w, wd, parent, name);
    struct folder *folder = folders_put(w->folders, parent, name, wd);
    folder->round = w->round;
    if (is_new)
        doubt_name(w, parent, name);
    if (!parent)
        w->top = folder;
    for (size_t i = 0; i < WATCHER_TRANSITS; i++) /* it has arrived */
        if (w->transits[i].wd == wd)
            w->transits[i] = (struct transit){ 0 };
    return folder;
}

/* Not any more; or it is, and the path to it is another one by now. */
static void miss(struct watcher *w, const struct folder *parent, const char *name, bool told)
{
    struct folder *folder = parent ? folders_child(w->folders, parent, name) : NULL;
    if (folder && told)
        folder->untold = true;
    doubt_missed(w, parent, name);
}

static int walk_one(struct watcher *w, struct folder *parent, const char *name, bool told,
                    struct tasks *tasks, struct error *err)
{
    _cleanup_buffer_ struct buffer path = BUFFER_INIT;
    if (parent)
        folders_path(parent, name, &path);
    else
        buffer_append_text(&path, name);
    if (path.length > CHANGE_PATH_MAX - NAME_MAX - 1)
        return cannot_watch(w, w->base, ENAMETOOLONG, NULL);
    _cleanup_close_ int fd = open_path(w, buffer_text(&path), O_RDONLY);
    if (fd < 0 && is_missing(errno)) {
        miss(w, parent, name, told);
        return 0;
    }
    if (fd < 0)
        return cannot_watch(w, buffer_text(&path), errno, err);
    int wd = add_watch(w, fd, w->mask);
    if (wd < 0)
        return cannot_watch(w, buffer_text(&path), errno, err);
    if (is_in_doubt(w, wd, parent, name, told)) {
        doubt_name(w, parent, name);
        return 0;
    }
    struct folder *folder = put_folder(w, parent, name, wd);
    if (w->recursive)
        look_into(w, folder, STEAL_FD(fd), told, tasks);
    return 0;
}

/* It may last. */
static int check_wanted(struct watcher *w, struct error *err)
{
    struct pollfd reader = { .fd = w->reader_fd };
    if (w->reader_fd < 0 || poll(&reader, 1, 0) <= 0)
        return 0;
    w->ended = true;
    return error_set(err, ERROR_UNAVAILABLE, "nobody waits for it");
}

int walk_folder(struct watcher *w, struct folder *parent, const char *name, bool told, struct error *err)
{
    struct tasks tasks = STAILQ_HEAD_INITIALIZER(tasks);
    struct task *task;
    w->is_limited = false;
    if (told) /* what it meets under this name may not be what the kernel spoke of */
        met_add(&w->met, parent->wd, name);
    int rc = walk_one(w, parent, name, told, &tasks, err);
    while ((task = STAILQ_FIRST(&tasks)) != NULL) {
        STAILQ_REMOVE_HEAD(&tasks, next);
        struct folder *folder = folders_find(w->folders, task->parent);
        if (rc == 0 && folder && (rc = check_wanted(w, err)) == 0)
            rc = walk_one(w, folder, task->name, told, &tasks, err);
        free(task);
        watcher_fill(w);
    }
    return rc;
}

void walk_renamed(struct watcher *w, struct folder *folder, const char *was)
{
    _cleanup_buffer_ struct buffer path = BUFFER_INIT;
    folders_path(folder, ".", &path);
    w->was = was;
    w->is_length = path.length;
    walk_folder(w, folder->parent, folder->name, false, NULL);
    w->was = NULL;
}

int walk_look(struct watcher *w, const char *path)
{
    _cleanup_close_ int fd = open_path(w, path, O_RDONLY);
    int wd = fd < 0 ? -1 : add_watch(w, fd, w->mask);
    if (wd >= 0 && !folders_find(w->folders, wd)) /* nobody's: it is met by a walk, or not at all */
        inbox_unwatch(w->inbox, wd);
    return wd;
}

int walk_finds(struct watcher *w, const struct folder *parent, const char *name, bool *ret_is_folder)
{
    struct stat stat;
    _cleanup_buffer_ struct buffer path = BUFFER_INIT;
    folders_path(parent, ".", &path);
    _cleanup_close_ int fd = open_path(w, buffer_text(&path), O_RDONLY);
    int wd = fd < 0 ? -1 : add_watch(w, fd, w->mask);
    if (wd >= 0 && !folders_find(w->folders, wd))
        inbox_unwatch(w->inbox, wd);
    if (wd != parent->wd)
        return -1;
    bool is_there = fstatat(fd, name, &stat, AT_SYMLINK_NOFOLLOW) == 0;
    *ret_is_folder = is_there && S_ISDIR(stat.st_mode);
    return is_there;
}

void walk_again(struct watcher *w)
{
    _cleanup_free_ char *path = xstrdup(w->top->name); /* another one may be there */
    w->round++;
    walk_folder(w, NULL, path, false, NULL);
    folders_sweep(w->folders, w->top, w->round);
}

/* ---- above ---- */

static int watch_above(struct watcher *w, const char *path, const char *leads, struct error *err)
{
    _cleanup_close_ int fd = open_path(w, path, O_RDONLY);
    int wd = fd < 0 ? -1 : add_watch(w, fd, IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR);
    if (wd < 0 && errno == EACCES) /* then nobody may rename in it either, most likely */
        return 0;
    if (wd < 0)
        return errno == ENOSPC ? too_many(w, err) : path_fail(err, errno, w->base, "cannot be watched");
    struct folder *folder = folders_put(w->folders, NULL, path, wd);
    free((char *)folder->leads);
    folder->leads = xstrdup(leads);
    return 0;
}

int walk_above(struct watcher *w, struct error *err)
{
    _cleanup_free_ char *path = xstrdup(w->top->name);
    if (!strcmp(path, "."))
        return 0;
    for (char *slash; (slash = strrchr(path, '/')) != NULL;) {
        *slash = '\0';
        if (watch_above(w, path, slash + 1, err) < 0)
            return -1;
    }
    return watch_above(w, ".", path, err);
}

bool walk_finds_top(struct watcher *w)
{
    _cleanup_close_ int fd = open_path(w, w->top->name, O_RDONLY);
    if (fd < 0)
        return !is_missing(errno);
    return add_watch(w, fd, w->mask) == w->top->wd;
}
