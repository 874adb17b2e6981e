/* Owns the file of the audit log: appending, setting aside, what to do where that fails. Knows nothing of
 * what is told. Everything happens under a lock on the file's directory, so that a line that a full disk cut
 * can be taken back, and nobody writes into what is being removed. Who holds that lock too long (a stopped
 * process) is not waited for: lines are then appended without it, and nothing is set aside. */
#include "lib/base/audit.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define NAME        "audit.log"
#define NEW_NAME    NAME ".new"
#define OLD_NAME    NAME ".old"
#define FILES_MOST  100
#define LOOKS       20 /* at the lock, which is held for microseconds, before it is slept for */
#define SLEEPS      60
#define SLEEP_NS    100000
#define BATCH_BYTES (32 << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(enum audit_level) least;
static bool fork_is_handled, forked, lock_is_stuck, batching;
static struct buffer pending; /* lines of a batch */
static char *directory, *from;
static int64_t most_bytes;
static int files_kept;
static int dir_fd = -1, file_fd = -1;
static struct stat opened; /* file_fd's */
static uint64_t lost, pending_lines;
static bool loss_is_told;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* The lock belongs to the open descriptor, which a child shares: it needs its own. */
static void after_fork_in_child(void)
{
    forked = true;
    batching = false;
    pending.length = 0;
    pthread_mutex_unlock(&lock);
}

static void close_all(void)
{
    memory_close_fd(&file_fd);
    memory_close_fd(&dir_fd);
    file_fd = dir_fd = -1;
    forked = lock_is_stuck = false;
}

void audit_init(const char *name, enum audit_level level, const char *where, int64_t bytes, int files)
{
    if (!fork_is_handled)
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    pthread_mutex_lock(&lock);
    fork_is_handled = true;
    close_all();
    free(directory);
    free(from);
    directory = xstrdup(where);
    from = xstrdup(name);
    most_bytes = bytes;
    files_kept = files < FILES_MOST ? files : FILES_MOST;
    lost = 0;
    batching = false;
    pending.length = 0;
    atomic_store_explicit(&least, level, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
}

bool audit_enabled(enum audit_level level)
{
    return level <= atomic_load_explicit(&least, memory_order_relaxed);
}

/* ---- the lock ---- */

static bool take_lock(void)
{
    for (int i = 0; i < (lock_is_stuck ? LOOKS + 1 : LOOKS + SLEEPS); i++) {
        if (flock(dir_fd, LOCK_EX | LOCK_NB) == 0) {
            lock_is_stuck = false;
            return true;
        }
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        if (i >= LOOKS)
            nanosleep(&(struct timespec){ .tv_nsec = SLEEP_NS }, NULL);
    }
    lock_is_stuck = true;
    return false;
}

static void drop_lock(bool locked)
{
    if (locked)
        flock(dir_fd, LOCK_UN);
}

/* ---- files ---- */

static int open_directory(struct error *err)
{
    if (forked)
        close_all();
    if (dir_fd >= 0)
        return 0;
    if (io_ensure_directory(directory, 0700, err) < 0)
        return -1;
    dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir_fd >= 0 ? 0 : error_errno(err, ERROR_INTERNAL, errno, "its directory cannot be opened");
}

static int cannot_open(struct error *err)
{
    return error_errno(err, ERROR_INTERNAL, errno, "its file cannot be opened");
}

/* A file that we made ourselves is given to the directory's owner; another's is only appended to. */
static int open_file(const char *name, int flags, struct error *err)
{
    _cleanup_close_ int fd = openat(
        dir_fd, name, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0600);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return cannot_open(err);
    if (!S_ISREG(status.st_mode) || status.st_nlink != 1)
        return error_set(err, ERROR_INTERNAL, "its file is none of ours");
    if ((flags & O_CREAT) && io_inherit_owner(dir_fd, fd, err) < 0)
        return -1;
    memory_close_fd(&file_fd);
    file_fd = STEAL_FD(fd);
    opened = status;
    return 0;
}

static void numbered(char name[static 32], int number)
{
    snprintf(name, 32, NAME ".%d", number);
}

/* At no moment is there no file: who does not wait for the lock would make one, which the new one would then
 * replace. renameat2(2); where the file system cannot, there is such a moment. */
static int exchange_new(void)
{
    if (renameat2(dir_fd, NEW_NAME, dir_fd, NAME, RENAME_EXCHANGE) == 0)
        return 0;
    if (errno != EINVAL || renameat(dir_fd, NAME, dir_fd, OLD_NAME) < 0 ||
        renameat(dir_fd, NEW_NAME, dir_fd, NAME) < 0)
        return -1;
    return renameat(dir_fd, OLD_NAME, dir_fd, NEW_NAME);
}

/* What was exchanged becomes the youngest of those that are kept. */
static int keep_exchanged(void)
{
    char older[32], newer[32];
    for (int i = FILES_MOST; i > files_kept; i--) { /* of a time when more were kept */
        numbered(older, i);
        unlinkat(dir_fd, older, 0);
    }
    for (int i = files_kept; i > 1; i--) {
        numbered(older, i);
        numbered(newer, i - 1);
        if (renameat(dir_fd, newer, dir_fd, older) < 0 && errno != ENOENT)
            return -1;
    }
    numbered(newer, 1);
    return renameat(dir_fd, NEW_NAME, dir_fd, newer);
}

/* The new file first: where there is no room for one, the old one goes on. One that holds something is left
 * of a process that was killed in the middle of this. */
static int set_aside(struct error *err)
{
    struct stat left;
    if (fstatat(dir_fd, NEW_NAME, &left, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(left.st_mode) &&
        left.st_size > 0)
        keep_exchanged();
    unlinkat(dir_fd, NEW_NAME, 0);
    if (open_file(NEW_NAME, O_CREAT | O_EXCL, err) < 0)
        return -1;
    if (exchange_new() < 0 || keep_exchanged() < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "a full file cannot be set aside");
    return 0;
}

static bool is_opened(const struct stat *status)
{
    return file_fd >= 0 && status->st_ino == opened.st_ino && status->st_dev == opened.st_dev;
}

/* The file of now, with room for length bytes. */
static int find_file(size_t length, bool locked, struct stat *ret, struct error *err)
{
    _cleanup_error_ struct error problem = ERROR_INIT;
    bool is_there = fstatat(dir_fd, NAME, ret, AT_SYMLINK_NOFOLLOW) == 0;
    bool is_full = locked && is_there && ret->st_size > 0 && ret->st_size + (int64_t)length > most_bytes;
    if (is_there && is_opened(ret) && !is_full)
        return 0;
    if (!(is_there && is_opened(ret)) && open_file(NAME, is_there ? 0 : O_CREAT, err) < 0)
        return -1;
    if (is_full && set_aside(&problem) < 0 && open_file(NAME, O_CREAT, err) < 0)
        return -1;
    if (file_fd < 0 || fstat(file_fd, ret) < 0)
        return cannot_open(err);
    return 0;
}

/* What the disk took a part of is taken back. */
static int append(const char *data, size_t length, bool locked, struct error *err)
{
    struct stat status;
    if (find_file(length, locked, &status, err) < 0)
        return -1;
    ssize_t written = write(file_fd, data, length);
    if (written == (ssize_t)length)
        return 0;
    int number = written < 0 ? errno : ENOSPC;
    if (written > 0 && (!locked || ftruncate(file_fd, status.st_size) < 0))
        (void)!write(file_fd, "\n", 1);
    return error_errno(err, ERROR_FULL, number, "a line cannot be written");
}

/* ---- writing ---- */

static void head(struct buffer *line, const char *kind)
{
    char time[CLOCK_TEXT_SIZE];
    clock_format(clock_wall_us(), time);
    buffer_printf(line, "{\"time\":\"%s\",\"from\":\"%s\",\"pid\":%d,\"kind\":\"%s\"", time, from ? from : "",
                  (int)getpid(), kind);
}

static void write_locked(const char *data, size_t length, uint64_t lines)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer both = BUFFER_INIT;
    int rc = open_directory(&err);
    bool locked = rc == 0 && take_lock();
    if (lost > 0) {
        head(&both, "lost");
        buffer_printf(&both, ",\"lines\":%llu}\n", (unsigned long long)lost);
    }
    buffer_append(&both, data, length);
    if (rc == 0)
        rc = append(both.data, both.length, locked, &err);
    drop_lock(locked);
    lost = rc == 0 ? 0 : lost + lines;
    if (rc < 0 && !loss_is_told)
        log_error("lines of the audit log are lost, until it has room again: %s", err.message);
    loss_is_told = rc < 0;
}

static void flush_locked(void)
{
    if (pending.length > 0)
        write_locked(pending.data, pending.length, pending_lines);
    pending.length = pending_lines = 0;
}

void audit_batch(bool on)
{
    pthread_mutex_lock(&lock);
    flush_locked();
    batching = on;
    pthread_mutex_unlock(&lock);
}

bool audit_waits(void)
{
    pthread_mutex_lock(&lock);
    bool waits = pending.length > 0;
    pthread_mutex_unlock(&lock);
    return waits;
}

void audit_flush(void)
{
    pthread_mutex_lock(&lock);
    flush_locked();
    pthread_mutex_unlock(&lock);
}

/* ---- a line ---- */

void audit_begin(struct buffer *line, const char *kind)
{
    line->length = 0;
    buffer_reserve(line, 512);
    head(line, kind);
}

static void begin_member(struct buffer *line, const char *name)
{
    buffer_append(line, ",\"", 2);
    buffer_append_text(line, name);
    buffer_append(line, "\":", 2);
}

/* Two bytes end the line. */
static void end_member(struct buffer *line, size_t begin)
{
    if (line->length + 2 > AUDIT_LINE_MAX)
        line->length = begin;
}

void audit_json(struct buffer *line, const char *name, const char *json, size_t length)
{
    size_t begin = line->length;
    begin_member(line, name);
    buffer_append(line, json, length);
    end_member(line, begin);
}

void audit_text(struct buffer *line, const char *name, const char *text)
{
    size_t begin = line->length;
    if (!text)
        return;
    begin_member(line, name);
    buffer_append_char(line, '"');
    audit_append_shown(line, text, strlen(text));
    buffer_append_char(line, '"');
    end_member(line, begin);
}

void audit_number(struct buffer *line, const char *name, int64_t value)
{
    size_t begin = line->length;
    begin_member(line, name);
    buffer_append_i64(line, value);
    end_member(line, begin);
}

void audit_flag(struct buffer *line, const char *name, bool value)
{
    const char *text = value ? "true" : "false";
    audit_json(line, name, text, strlen(text));
}

void audit_end(struct buffer *line)
{
    int saved_errno = errno;
    buffer_append_text(line, "}\n");
    pthread_mutex_lock(&lock);
    if (batching && pending.length + line->length > BATCH_BYTES)
        flush_locked();
    if (batching) {
        buffer_append(&pending, line->data, line->length);
        pending_lines++;
    } else if (atomic_load_explicit(&least, memory_order_relaxed) != AUDIT_OFF) {
        write_locked(line->data, line->length, 1);
    }
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
}
