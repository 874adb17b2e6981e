/* Owns how an LMDB environment is brought up: its files exist with the right owner and with their blocks
 * before it is mapped, because a store into a hole of a mapped lock file on a full disk is SIGBUS. Knows
 * nothing of what is stored. */
#include "lib/store/environment.h"

#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/store/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* LMDB 0.9: two cache lines of header, one for each reader; a longer file is fine with every version. */
#define LOCK_BYTES(readers) (4096 + 64 * (off_t)(readers))
#define FULL_BELOW          (1u << 20) /* a short write has taken what was left */
#define MAP_LIMIT           ((size_t)1 << 42)

int environment_error(struct error *err, int result, const char *what)
{
    if (result == MDB_MAP_FULL)
        return error_set(err, ERROR_FULL, "%s: the store is full", what);
    if (result > 0)
        return error_errno(err, ERROR_INTERNAL, result, "%s", what);
    return error_set(err, ERROR_INTERNAL, "%s: %s", what, mdb_strerror(result));
}

/* An empty data.mdb is a new environment to LMDB. */
static int make_file(int dirfd, const char *name, off_t size, struct error *err)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, 0) == 0 && st.st_size >= size)
        return 0;
    _cleanup_close_ int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0660);
    if (fd < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "make the store's %s", name);
    if (fchmod(fd, 0660) < 0 && errno != EPERM)
        return error_errno(err, ERROR_INTERNAL, errno, "mode of the store's %s", name);
    if (io_inherit_owner(dirfd, fd, err) < 0)
        return -1;
    int result = size > 0 ? posix_fallocate(fd, 0, size) : 0;
    if (result != 0)
        return error_errno(err, ERROR_INTERNAL, result, "allocate the store's %s", name);
    return 0;
}

static int make_files(const struct environment_options *options, struct error *err)
{
    _cleanup_close_ int dirfd = open(options->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return error_errno(err, errno == ENOENT ? ERROR_NOT_FOUND : ERROR_INTERNAL, errno, "open the store");
    if (make_file(dirfd, "lock.mdb", LOCK_BYTES(options->readers), err) < 0)
        return -1;
    return options->flags & MDB_RDONLY ? 0 : make_file(dirfd, "data.mdb", 0, err);
}

bool environment_is_damage(int result)
{
    return result == MDB_INVALID || result == MDB_CORRUPTED || result == MDB_VERSION_MISMATCH ||
           result == MDB_PAGE_NOTFOUND || result == MDB_PANIC || result == MDB_BAD_TXN;
}

static int open_unguarded(const struct environment_options *options, MDB_env **ret)
{
    MDB_env *env = NULL;
    int result = mdb_env_create(&env);
    if (result != 0)
        return result;
    mdb_env_set_assert(env, fault_assert);
    mdb_env_set_maxreaders(env, options->readers);
    if (options->tables > 0)
        mdb_env_set_maxdbs(env, options->tables);
    if (options->map_bytes > 0)
        mdb_env_set_mapsize(env, ((size_t)options->map_bytes + 4095) & ~(size_t)4095);
    result = mdb_env_open(env, options->path, options->flags | MDB_NOTLS, 0660);
    if (result != 0) {
        mdb_env_close(env);
        return result;
    }
    *ret = env;
    return 0;
}

struct opening {
    const struct environment_options *options;
    MDB_env **ret;
    int result;
};

static void opening_body(void *user)
{
    struct opening *o = user;
    o->result = open_unguarded(o->options, o->ret);
}

/* A file that is shorter than its head says faults already here. */
static int try_open(const struct environment_options *options, MDB_env **ret)
{
    struct opening o = { .options = options, .ret = ret };
    return fault_guard(opening_body, &o) ? o.result : MDB_CORRUPTED;
}

static int check_kind(const char *path, struct error *err)
{
    struct stat st;
    _cleanup_free_ char *data = xasprintf("%s/data.mdb", path);
    if (lstat(data, &st) == 0 && !S_ISREG(st.st_mode))
        return error_set(err, ERROR_INTERNAL, "open the store: data.mdb is not a plain file");
    return 0;
}

int environment_open(const struct environment_options *options, MDB_env **ret, bool *ret_damaged,
                     struct error *err)
{
    bool plain = check_kind(options->path, err) == 0;
    if (ret_damaged)
        *ret_damaged = !plain;
    if (!plain || make_files(options, err) < 0)
        return -1;
    int result = try_open(options, ret);
    if (ret_damaged)
        *ret_damaged = environment_is_damage(result);
    if (result != 0)
        return environment_error(err, result, "open the store");
    int fd = -1;
    if (mdb_env_get_fd(*ret, &fd) == 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return 0;
}

/* What may be cured before another try. A crowd of processes can grow the map again and again, hence a few
 * tries. */
static bool cure(MDB_env *env, int result, int attempt)
{
    if (attempt >= 8)
        return false;
    if (result == MDB_MAP_RESIZED)
        return mdb_env_set_mapsize(env, 0) == 0;
    if (result == MDB_READERS_FULL) {
        int dead = 0;
        mdb_reader_check(env, &dead);
        log_warning("store: all reader slots are taken, %d were of dead processes", dead);
        return dead > 0;
    }
    return false;
}

int environment_begin(MDB_env *env, unsigned flags, MDB_txn **ret, struct error *err)
{
    for (int attempt = 0;; attempt++) {
        int result = mdb_txn_begin(env, NULL, flags, ret);
        if (result == 0)
            return 0;
        if (!cure(env, result, attempt))
            return environment_error(err, result, "begin a transaction");
    }
}

int environment_renew(MDB_txn *txn, struct error *err)
{
    for (int attempt = 0;; attempt++) {
        int result = mdb_txn_renew(txn);
        if (result == 0)
            return 0;
        if (!cure(mdb_txn_env(txn), result, attempt))
            return environment_error(err, result, "begin a read");
    }
}

static bool disk_is_full(MDB_env *env)
{
    int fd;
    struct statvfs fs;
    if (mdb_env_get_fd(env, &fd) != 0 || fstatvfs(fd, &fs) < 0)
        return false;
    return (uint64_t)fs.f_bavail * fs.f_frsize < FULL_BELOW;
}

int environment_commit(MDB_txn *txn)
{
    MDB_env *env = mdb_txn_env(txn);
    int result = mdb_txn_commit(txn);
    return result == EIO && disk_is_full(env) ? ENOSPC : result;
}

int environment_grow(MDB_env *env, struct error *err)
{
    MDB_envinfo info;
    mdb_env_info(env, &info);
    if (info.me_mapsize >= MAP_LIMIT)
        return error_set(err, ERROR_FULL, "the store has reached its largest size");
    int result = mdb_env_set_mapsize(env, info.me_mapsize * 2);
    if (result != 0)
        return environment_error(err, result, "grow the store");
    return 0;
}

/* Pages of the main table and the two of LMDB: what is free may be used again, so the file's length says
 * nothing. */
double environment_fill(MDB_env *env)
{
    MDB_envinfo info;
    MDB_stat stat;
    mdb_env_info(env, &info);
    mdb_env_stat(env, &stat);
    size_t pages = 2 + stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages;
    return (double)pages * stat.ms_psize / (double)info.me_mapsize;
}
