/* Owns: the one place that log lines leave a process by. It must not know: what is logged. Locks are held for
 * memory work and one write(2); fork(2) is taken care of, so that a child neither dead-locks nor writes its
 * parent's lines again. */
#include "lib/base/log.h"

#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

enum { LINE_MAX_BYTES = 8192, BATCH_BYTES = 64 << 10 };
static const char cut_mark[] = " [cut]\n";

static const char *const level_names[] = {
    [LOG_LEVEL_DEBUG] = "DEBUG",
    [LOG_LEVEL_INFO] = "INFO",
    [LOG_LEVEL_WARNING] = "WARNING",
    [LOG_LEVEL_ERROR] = "ERROR",
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer pending;
static bool batching, fork_is_handled;
static int log_fd = STDERR_FILENO;
static char log_name[32] = "workspace";
static _Atomic(enum log_level) log_least = LOG_LEVEL_INFO;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    pending.length = 0;
    batching = false;
    pthread_mutex_unlock(&lock);
}

/* A reader that is gone or slow must not stop a worker: what cannot be written is dropped. */
static void write_bytes(const char *data, size_t length)
{
    while (length > 0) {
        ssize_t written = write(log_fd, data, length);
        if (written < 0 && errno != EINTR)
            return;
        if (written > 0) {
            data += written;
            length -= (size_t)written;
        }
    }
}

static void flush_locked(void)
{
    write_bytes(pending.data, pending.length);
    pending.length = 0;
}

static int open_log(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
    if (fd < 0)
        return STDERR_FILENO;
    return fd;
}

void log_init(const char *name, enum log_level level, const char *path)
{
    pthread_mutex_lock(&lock);
    flush_locked();
    if (log_fd != STDERR_FILENO)
        close(log_fd);
    log_fd = path != NULL && path[0] != '\0' ? open_log(path) : STDERR_FILENO;
    snprintf(log_name, sizeof(log_name), "%s", name);
    atomic_store(&log_least, level);
    if (!fork_is_handled)
        fork_is_handled = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
    pthread_mutex_unlock(&lock);
}

void log_take_stderr(void)
{
    pthread_mutex_lock(&lock);
    if (log_fd != STDERR_FILENO)
        dup2(log_fd, STDERR_FILENO);
    pthread_mutex_unlock(&lock);
}

bool log_enabled(enum log_level level)
{
    return level >= atomic_load_explicit(&log_least, memory_order_relaxed);
}

/* Length of a character that is written as it is, for nothing acts on it; else 0. */
static size_t raw_length(const char *at, size_t left)
{
    uint32_t code;
    size_t size = utf8_character(at, left, &code);
    return size > 0 && !utf8_acts(code) ? size : 0;
}

/* Writes text escaped to out and returns its length; *whole tells whether it fitted into size. */
static size_t escape(char *out, size_t size, const char *text, size_t length, bool *whole)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t used = 0, at = 0;
    while (at < length) {
        size_t raw = raw_length(text + at, length - at);
        unsigned char c = (unsigned char)text[at];
        if (used + (raw > 0 ? raw : 4) > size)
            break;
        if (raw > 0) {
            memcpy(out + used, text + at, raw);
        } else {
            memcpy(out + used, (const char[]){ '\\', 'x', digits[c >> 4], digits[c & 15] }, 4);
        }
        used += raw > 0 ? raw : 4;
        at += raw > 0 ? raw : 1;
    }
    *whole = at == length;
    return used;
}

/* line has LINE_MAX_BYTES. */
static size_t make_line(char *line, enum log_level level, const char *text, size_t length, bool whole)
{
    char time[CLOCK_TEXT_SIZE];
    clock_format(clock_wall_us(), time);
    size_t used = (size_t)snprintf(line, LINE_MAX_BYTES, "%s %s %s[%d] ", time, level_names[level], log_name,
                                   (int)getpid());
    bool fitted;
    used += escape(line + used, LINE_MAX_BYTES - sizeof(cut_mark) - used, text, length, &fitted);
    if (whole && fitted) {
        line[used++] = '\n';
        return used;
    }
    memcpy(line + used, cut_mark, sizeof(cut_mark) - 1);
    return used + sizeof(cut_mark) - 1;
}

void log_write(enum log_level level, const char *format, ...)
{
    if (!log_enabled(level))
        return;
    int saved_errno = errno;
    char text[LINE_MAX_BYTES], line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    size_t kept = length < 0 ? 0 : (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1;
    pthread_mutex_lock(&lock);
    size_t size = make_line(line, level, text, kept, length == (int)kept);
    if (pending.length + size > BATCH_BYTES)
        flush_locked();
    if (batching)
        buffer_append(&pending, line, size);
    else
        write_bytes(line, size);
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
}

void log_batch(bool on)
{
    pthread_mutex_lock(&lock);
    flush_locked();
    batching = on;
    pthread_mutex_unlock(&lock);
}

void log_flush(void)
{
    pthread_mutex_lock(&lock);
    flush_locked();
    pthread_mutex_unlock(&lock);
}
