/* Owns a worker's open environments: at most so many, the least recently used goes. An environment may be
 * replaced or removed under it, so its files are looked at again each time, by inode. Knows nothing
 * of what is read. */
#include "lib/store/events_internal.h"

#include "lib/base/log.h"

#include <errno.h>
#include <sys/stat.h>

struct events_cache {
    char *state_dir;
    size_t capacity, count;
    struct events_reader **readers; /* the most recently used first */
};

struct events_cache *events_cache_new(const char *state_dir, size_t capacity)
{
    struct events_cache *c = xcalloc(1, sizeof *c);
    c->state_dir = xstrdup(state_dir);
    c->capacity = capacity > 0 ? capacity : 1;
    c->readers = xcalloc(c->capacity, sizeof *c->readers);
    return c;
}

static void free_reader(struct events_reader *r)
{
    reader_close(r);
    free(r);
}

void events_cache_free(struct events_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++)
        free_reader(c->readers[i]);
    free(c->readers);
    free(c->state_dir);
    free(c);
}

static void remove_at(struct events_cache *c, size_t at)
{
    free_reader(c->readers[at]);
    c->count--;
    memmove(&c->readers[at], &c->readers[at + 1], (c->count - at) * sizeof *c->readers);
}

static void insert_first(struct events_cache *c, struct events_reader *r)
{
    if (c->count == c->capacity)
        remove_at(c, c->count - 1);
    memmove(&c->readers[1], &c->readers[0], c->count * sizeof *c->readers);
    c->readers[0] = r;
    c->count++;
}

static long find(const struct events_cache *c, const char *workspace_id)
{
    for (size_t i = 0; i < c->count; i++)
        if (memcmp(c->readers[i]->workspace_id, workspace_id, ID_SIZE) == 0)
            return (long)i;
    return -1;
}

static void to_front(struct events_cache *c, size_t at)
{
    struct events_reader *r = c->readers[at];
    memmove(&c->readers[1], &c->readers[0], at * sizeof *c->readers);
    c->readers[0] = r;
}

static int look_at_files(const char *directory, struct stat *ret, struct error *err)
{
    _cleanup_free_ char *path = xasprintf("%s/data.mdb", directory);
    if (stat(path, ret) < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? error_set(err, ERROR_NOT_FOUND, "this workspace has no logs")
                   : error_errno(err, ERROR_INTERNAL, errno, "open the log");
    if (ret->st_size == 0)
        return error_set(err, ERROR_NOT_FOUND, "this workspace has no logs yet");
    return 0;
}

/* True while the environment that r has open is the one that stands under the name. */
static bool is_current(const struct events_cache *c, struct events_reader *r)
{
    struct stat st;
    _cleanup_free_ char *directory = events_directory(c->state_dir, r->workspace_id);
    return !r->suspect && look_at_files(directory, &st, NULL) == 0 && st.st_dev == r->device &&
           st.st_ino == r->inode;
}

static struct events_reader *open_reader(const struct events_cache *c, const char *workspace_id,
                                         struct error *err)
{
    struct stat st;
    _cleanup_free_ char *directory = events_directory(c->state_dir, workspace_id);
    if (look_at_files(directory, &st, err) < 0)
        return NULL;
    if (marker_is_foreign(directory)) {
        error_set(err, ERROR_UNAVAILABLE,
                  "this workspace's logs are to be verified, the machine went down while they were open");
        return NULL;
    }
    struct environment_options options = { .path = directory,
                                           .flags = MDB_RDONLY,
                                           .readers = EVENTS_READERS };
    MDB_env *env;
    bool damaged = false;
    _cleanup_error_ struct error problem = ERROR_INIT;
    if (environment_open(&options, &env, &damaged, &problem) < 0) {
        if (damaged)
            events_damaged(err, problem.message);
        else
            error_move(err, &problem);
        return NULL;
    }
    struct events_reader *r = xcalloc(1, sizeof *r);
    r->env = env;
    r->owns_env = true;
    r->device = st.st_dev;
    r->inode = st.st_ino;
    memcpy(r->workspace_id, workspace_id, ID_SIZE);
    return r;
}

struct events_reader *events_cache_get(struct events_cache *c, const char *workspace_id, struct error *err)
{
    if (!id_is_valid(ID_WORKSPACE, workspace_id)) {
        error_set(err, ERROR_NOT_FOUND, "there is no workspace %.64s", workspace_id ? workspace_id : "");
        return NULL;
    }
    long at = find(c, workspace_id);
    if (at >= 0 && is_current(c, c->readers[at])) {
        to_front(c, (size_t)at);
        return c->readers[0];
    }
    if (at >= 0)
        remove_at(c, (size_t)at);
    struct events_reader *r = open_reader(c, workspace_id, err);
    if (r)
        insert_first(c, r);
    return r;
}

void events_cache_sweep(struct events_cache *c)
{
    for (size_t i = c->count; i > 0; i--)
        if (!is_current(c, c->readers[i - 1]))
            remove_at(c, i - 1);
}

void events_cache_drop(struct events_cache *c, const char *workspace_id)
{
    if (!id_is_valid(ID_WORKSPACE, workspace_id))
        return;
    long at = find(c, workspace_id);
    if (at >= 0)
        remove_at(c, (size_t)at);
}
