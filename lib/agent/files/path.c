/* Owns the walk from the workspace's folder to what a path names. No decision is made by comparing paths:
 * each step is an open of one name in a folder that is held open, so it cannot leave that folder. A step up,
 * which only links may contain, walks down anew. */
#include "lib/agent/files/path.h"

#include "lib/base/base64.h"
#include "lib/base/buffer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define LINKS_MAX    40
#define PATH_LONGEST (PATH_MAX - 1)

struct walk {
    const struct path_root *root;
    const char *path; /* as given, for messages */
    unsigned flags, links;
    int folder;             /* O_PATH */
    struct buffer resolved; /* names walked so far: "a/b" */
    struct buffer rest;     /* what is still to be walked */
    size_t at;              /* in rest */
    struct place *place;
};

void place_clear(struct place *place)
{
    memory_close_fd(&place->folder_fd);
    free(place->shown);
    *place = (struct place)PLACE_INIT;
}

const char *path_kind(mode_t mode)
{
    static const struct {
        mode_t type;
        const char *name;
    } kinds[] = {
        { S_IFREG, "a file" },   { S_IFDIR, "a folder" },  { S_IFLNK, "a symbolic link" },
        { S_IFIFO, "a FIFO" },   { S_IFSOCK, "a socket" }, { S_IFCHR, "a device" },
        { S_IFBLK, "a device" },
    };
    for (size_t i = 0; i < N_ELEMENTS(kinds); i++)
        if ((mode & S_IFMT) == kinds[i].type)
            return kinds[i].name;
    return "no file";
}

const char *path_type(mode_t mode)
{
    return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "link" : "other";
}

static const struct {
    int number;
    enum error_code code;
    const char *text;
} failures[] = {
    { ENOENT, ERROR_NOT_FOUND, "does not exist" },
    { ENOTDIR, ERROR_INVALID, "lies below something that is no folder" },
    { EISDIR, ERROR_INVALID, "is a folder: list it, or name a file in it" },
    { ELOOP, ERROR_INVALID, "leads through too many symbolic links" },
    { ENAMETOOLONG, ERROR_INVALID, "has a name that is too long" },
    { EACCES, ERROR_FORBIDDEN, "is not accessible: permission denied" },
    { EPERM, ERROR_FORBIDDEN, "is not accessible: operation not permitted" },
    { EROFS, ERROR_FORBIDDEN, "lies on a file system that is read-only" },
    { ENOSPC, ERROR_FULL, "cannot be written: the disk is full" },
    { EDQUOT, ERROR_FULL, "cannot be written: the quota is used up" },
    { EFBIG, ERROR_TOO_LARGE, "would become too large" },
    { ENOTEMPTY, ERROR_CONFLICT, "is a folder that is not empty" },
    { EEXIST, ERROR_CONFLICT, "exists already" },
    { ETXTBSY, ERROR_CONFLICT, "is a program that runs" },
    { EBUSY, ERROR_CONFLICT, "is in use" },
    { ESTALE, ERROR_CONFLICT, "changed meanwhile: try again" },
    { ENXIO, ERROR_CONFLICT, "changed meanwhile: try again" }, /* a socket, which no open is for */
    { EXDEV, ERROR_INVALID, "would have to go to another file system" },
    { EMLINK, ERROR_INVALID, "lies in a folder that takes no more" },
};

int path_fail(struct error *err, int number, const char *path, const char *what)
{
    for (size_t i = 0; i < N_ELEMENTS(failures); i++)
        if (failures[i].number == number)
            return error_set(err, failures[i].code, "'%.200s' %s", path, failures[i].text);
    return error_errno(err, ERROR_DRIVER, number, "'%.200s': %s", path, what);
}

static int outside(const struct walk *w, struct error *err)
{
    return error_set(err, ERROR_INVALID,
                     "'%.200s' %sleads out of the workspace: use a path inside of /workspace", w->path,
                     w->links > 0 ? "is a symbolic link, or lies below one, that " : "");
}

/* ---- where it begins ---- */

/* What follows the folder's own name in an absolute path; NULL: it is another folder. */
static const char *below(const char *path, const char *folder)
{
    for (folder += strspn(folder, "/"); *folder; folder += strspn(folder, "/")) {
        size_t length = strcspn(folder, "/");
        path += strspn(path, "/");
        if (strcspn(path, "/") != length || memcmp(path, folder, length) != 0)
            return NULL;
        path += length;
        folder += length;
    }
    return path;
}

static const char *strip_root(const struct walk *w, const char *path)
{
    const char *rest = below(path, "/workspace");
    return rest ? rest : below(path, w->root->path);
}

static int begin_at_root(struct walk *w, struct error *err)
{
    int fd = fcntl(w->root->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return path_fail(err, errno, w->path, "cannot be opened");
    memory_close_fd(&w->folder);
    w->folder = fd;
    w->resolved.length = 0;
    return 0;
}

static int set_rest(struct walk *w, const char *path, struct error *err)
{
    const char *rest = path;
    if (*path == '/') {
        rest = strip_root(w, path);
        if (!rest)
            return outside(w, err);
        if (begin_at_root(w, err) < 0)
            return -1;
    }
    struct buffer joined = BUFFER_INIT;
    buffer_append_text(&joined, rest);
    buffer_append_char(&joined, '/');
    buffer_append(&joined, w->rest.data + w->at, w->rest.length - w->at);
    buffer_free(&w->rest);
    w->rest = joined;
    w->at = 0;
    return joined.length <= 2 * PATH_MAX ? 0 : path_fail(err, ENAMETOOLONG, w->path, "");
}

/* ---- steps ---- */

static void append_name(struct walk *w, const char *name)
{
    if (w->resolved.length)
        buffer_append_char(&w->resolved, '/');
    buffer_append_text(&w->resolved, name);
}

static int enter(struct walk *w, const char *name, struct error *err)
{
    int fd = openat(w->folder, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return path_fail(err, errno, w->path, "cannot be opened");
    close(w->folder);
    w->folder = fd;
    append_name(w, name);
    return 0;
}

/* Down again from the root, by the names that led here but for the last one. */
static int climb(struct walk *w, struct error *err)
{
    if (!w->resolved.length)
        return outside(w, err);
    _cleanup_free_ char *names = xstrdup(buffer_text(&w->resolved));
    char *last = strrchr(names, '/'), *state = NULL;
    *(last ? last : names) = '\0';
    if (begin_at_root(w, err) < 0)
        return -1;
    for (char *name = strtok_r(names, "/", &state); name; name = strtok_r(NULL, "/", &state))
        if (enter(w, name, err) < 0)
            return -1;
    return 0;
}

static int follow(struct walk *w, int link_fd, struct error *err)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(link_fd, "", target, sizeof target - 1);
    if (++w->links > LINKS_MAX || length <= 0)
        return path_fail(err, ELOOP, w->path, "");
    target[length] = '\0';
    return set_rest(w, target, err);
}

static void arrive(struct walk *w, const char *name)
{
    struct place *place = w->place;
    if (strcmp(name, ".") != 0)
        append_name(w, name);
    place->folder_fd = STEAL_FD(w->folder);
    snprintf(place->name, sizeof place->name, "%s", name);
    place->shown = xstrdup(w->resolved.length ? buffer_text(&w->resolved) : ".");
}

static int make_folder(struct walk *w, const char *name, struct error *err)
{
    if (mkdirat(w->folder, name, 0777) < 0 && errno != EEXIST)
        return path_fail(err, errno, w->path, "its folder cannot be made");
    return enter(w, name, err);
}

static int step_to_missing(struct walk *w, const char *name, bool is_last, struct error *err)
{
    if (is_last) {
        arrive(w, name);
        return 1;
    }
    if (w->flags & PATH_MAKE_PARENTS)
        return make_folder(w, name, err);
    w->place->parents_missing = true;
    w->place->shown = xstrdup(w->path);
    return 1;
}

/* 0 = go on, 1 = arrived. */
static int step(struct walk *w, const char *name, bool is_last, struct error *err)
{
    _cleanup_close_ int fd = openat(w->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return step_to_missing(w, name, is_last, err);
    struct stat *stat = &w->place->stat;
    if (fd < 0 || fstat(fd, stat) < 0)
        return path_fail(err, errno, w->path, "cannot be opened");
    if (S_ISLNK(stat->st_mode) && !(is_last && w->flags & PATH_THE_LINK))
        return follow(w, fd, err);
    if (is_last) {
        w->place->exists = true;
        arrive(w, name);
        return 1;
    }
    if (!S_ISDIR(stat->st_mode))
        return path_fail(err, ENOTDIR, w->path, "");
    close(w->folder);
    w->folder = STEAL_FD(fd);
    append_name(w, name);
    return 0;
}

/* The next name of rest; false: there is none. */
static bool next_name(struct walk *w, char name[static NAME_MAX + 2], bool *ret_last)
{
    const char *text = buffer_text(&w->rest);
    w->at += strspn(text + w->at, "/");
    size_t length = strcspn(text + w->at, "/");
    snprintf(name, NAME_MAX + 2, "%.*s", (int)(length < NAME_MAX + 1 ? length : NAME_MAX + 1), text + w->at);
    w->at += length;
    *ret_last = text[w->at + strspn(text + w->at, "/")] == '\0';
    return length > 0;
}

/* Only the root itself is reached without a last name, or what a link names by going up. */
static int arrive_at_folder(struct walk *w, struct error *err)
{
    if (fstat(w->folder, &w->place->stat) < 0)
        return path_fail(err, errno, w->path, "cannot be opened");
    w->place->exists = true;
    arrive(w, ".");
    return 0;
}

static int walk(struct walk *w, struct error *err)
{
    char name[NAME_MAX + 2];
    bool is_last;
    while (next_name(w, name, &is_last)) {
        int rc = 0;
        if (!strcmp(name, ".."))
            rc = climb(w, err);
        else if (strcmp(name, ".") != 0)
            rc = step(w, name, is_last, err);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
    }
    return arrive_at_folder(w, err);
}

/* ---- the whole ---- */

static bool has_step_up(const char *path)
{
    for (size_t length; *path; path += length + strspn(path + length, "/")) {
        length = strcspn(path, "/");
        if (length == 2 && !memcmp(path, "..", 2))
            return true;
    }
    return false;
}

static int check(const char *path, struct error *err)
{
    if (!*path)
        return error_set(err, ERROR_INVALID, "a path must not be empty, and must have no NUL in it");
    if (strlen(path) > PATH_LONGEST)
        return error_set(err, ERROR_INVALID, "a path has at most %d bytes", PATH_LONGEST);
    if (has_step_up(path))
        return error_set(err, ERROR_INVALID, "'%.200s': '..' is not taken in a path", path);
    return 0;
}

static bool is_escaped(const char *path)
{
    return strncmp(path, PATH_ESCAPE, sizeof PATH_ESCAPE - 1) == 0;
}

static int decode(const char *path, struct buffer *ret, struct error *err)
{
    _cleanup_free_ char *text = xasprintf("%s==", path);
    size_t length = strlen(path);
    for (char *at = text; *at; at++)
        *at = *at == '-' ? '+' : *at == '_' ? '/' : *at;
    size_t padded = strchr(path, '=') ? length : length + (4 - length % 4) % 4;
    if (length % 4 == 1 || !base64_decode(text, padded, ret) ||
        (ret->length > 0 && memchr(ret->data, '\0', ret->length)))
        return error_set(err, ERROR_INVALID,
                         "'" PATH_ESCAPE "%.200s' is no base64 of a path; a name that begins so is written "
                         "./" PATH_ESCAPE "...",
                         path);
    return 0;
}

static int find(const struct path_root *root, const char *path, const char *said, unsigned flags,
                struct place *ret, struct error *err)
{
    struct walk w = { .root = root, .path = said, .flags = flags, .folder = -1, .place = ret };
    if (check(path, err) < 0)
        return -1;
    int rc = begin_at_root(&w, err) < 0 || set_rest(&w, path, err) < 0 ? -1 : walk(&w, err);
    ret->slash = path[strlen(path) - 1] == '/';
    if (rc == 0 && ret->slash && ret->exists && !S_ISDIR(ret->stat.st_mode))
        rc = error_set(err, ERROR_INVALID, "'%.200s' is %s, no folder: leave out the slash at its end", said,
                       path_kind(ret->stat.st_mode));
    memory_close_fd(&w.folder);
    buffer_free(&w.resolved);
    buffer_free(&w.rest);
    return rc;
}

int path_find(const struct path_root *root, const char *path, unsigned flags, struct place *ret,
              struct error *err)
{
    _cleanup_buffer_ struct buffer exact = BUFFER_INIT;
    if (flags & PATH_EXACT || !is_escaped(path))
        return find(root, path, path, flags, ret, err);
    if (decode(path + sizeof PATH_ESCAPE - 1, &exact, err) < 0)
        return -1;
    return find(root, buffer_text(&exact), path, flags, ret, err);
}

const char *path_name(const char *path, const struct place *place)
{
    return is_escaped(path) && place->shown ? place->shown : path;
}

int path_find_existing(const struct path_root *root, const char *path, unsigned flags, struct place *ret,
                       struct error *err)
{
    if (path_find(root, path, flags, ret, err) < 0)
        return -1;
    return ret->exists ? 0 : path_fail(err, ENOENT, path, "");
}

bool path_leads_to_folder(const struct path_root *root, const char *exact)
{
    _cleanup_place_ struct place place = PLACE_INIT;
    return path_find(root, exact, PATH_EXACT, &place, NULL) == 0 && place.exists &&
           S_ISDIR(place.stat.st_mode);
}

int path_check_file(const struct place *place, const char *path, struct error *err)
{
    if (!place->slash || place->exists)
        return 0;
    return error_set(err, ERROR_INVALID, "'%.200s' ends with a slash, which a file's path does not", path);
}

/* ---- opening ---- */

static int refuse_kind(mode_t mode, const char *path, struct error *err)
{
    return error_set(err, ERROR_INVALID, "'%.200s' is %s", path, path_kind(mode));
}

int path_open_file(const struct place *place, const char *path, int flags, struct stat *ret_stat,
                   struct error *err)
{
    if (!S_ISREG(place->stat.st_mode))
        return refuse_kind(place->stat.st_mode, path, err);
    _cleanup_close_ int fd =
        openat(place->folder_fd, place->name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ELOOP)
        return error_set(err, ERROR_CONFLICT, "'%.200s' changed while it was opened: try again", path);
    if (fd < 0 || fstat(fd, ret_stat) < 0)
        return path_fail(err, errno, path, "cannot be opened");
    if (!S_ISREG(ret_stat->st_mode))
        return refuse_kind(ret_stat->st_mode, path, err);
    return STEAL_FD(fd);
}

int path_open_folder(const struct place *place, const char *path, struct error *err)
{
    if (!S_ISDIR(place->stat.st_mode))
        return error_set(err, ERROR_INVALID, "'%.200s' is %s, not a folder", path,
                         path_kind(place->stat.st_mode));
    int fd = openat(place->folder_fd, place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return path_fail(err, errno, path, "cannot be opened");
    return fd;
}
