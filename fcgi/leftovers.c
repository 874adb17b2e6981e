/* Finds daemons by their command lines, which name subcommand and state directory, and ends them by pidfd.
 * What merely looks like one must be this program's executable and run as root or as this user: a sandbox
 * cannot pass for it. */
#include "fcgi/leftovers.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/memory.h"
#include "lib/base/process.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>

enum { MOST = 4096 };

static bool is_command_line(const struct buffer *line, const struct leftover *which)
{
    const char *at = line->data, *end = at + line->length;
    bool right_first = false, right_value = false;

    for (int i = 0; at < end; i++) {
        const char *next = at + strnlen(at, (size_t)(end - at)) + 1;
        if (i == 1)
            right_first = strcmp(at, which->first) == 0;
        if (strcmp(at, which->option) == 0 && next < end)
            right_value = strcmp(next, which->value) == 0;
        at = next;
    }
    return right_first && right_value;
}

static bool is_program(int proc, const char *pid, const char *program)
{
    char path[64], exe[PATH_MAX];

    snprintf(path, sizeof(path), "%.20s/exe", pid);
    ssize_t length = readlinkat(proc, path, exe, sizeof(exe) - 1);
    if (length < 0)
        return false;
    exe[length] = 0;
    /* "PATH (deleted)" after a new build */
    return strncmp(exe, program, strlen(program)) == 0;
}

static bool matches(int proc, const char *pid, const struct leftover *which)
{
    char path[64];
    _cleanup_buffer_ struct buffer line = BUFFER_INIT;

    snprintf(path, sizeof(path), "%.20s/cmdline", pid);
    if (io_read_file(proc, path, 1 << 20, &line, NULL) < 0 || line.length == 0)
        return false;
    buffer_text(&line);
    return is_command_line(&line, which) && is_program(proc, pid, which->program);
}

static int find(const struct leftover *which, int *pidfds)
{
    DIR *proc = opendir("/proc");
    int count = 0;

    for (struct dirent *entry; proc != NULL && count < MOST && (entry = readdir(proc)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0]) || atoi(entry->d_name) == getpid() ||
            !matches(dirfd(proc), entry->d_name, which))
            continue;
        /* Looked at again once it is held: the number may have gone to another process meanwhile. */
        int pidfd = process_pidfd_open(atoi(entry->d_name));
        if (pidfd >= 0 && matches(dirfd(proc), entry->d_name, which))
            pidfds[count++] = pidfd;
        else if (pidfd >= 0)
            close(pidfd);
    }
    if (proc != NULL)
        closedir(proc);
    return count;
}

int leftovers_end(const struct leftover *which, int timeout_ms)
{
    _cleanup_free_ int *pidfds = xcalloc(MOST, sizeof(*pidfds));
    int count = find(which, pidfds);
    int64_t end = clock_boottime_ms() + timeout_ms;

    for (int i = 0; i < count; i++)
        process_pidfd_signal(pidfds[i], SIGTERM);
    for (int i = 0; i < count; i++) {
        int64_t left = end - clock_boottime_ms();
        if (process_pidfd_wait(pidfds[i], left > 0 ? (int)left : 0) != 1) {
            process_pidfd_signal(pidfds[i], SIGKILL);
            process_pidfd_wait(pidfds[i], 2000);
        }
        close(pidfds[i]);
    }
    return count;
}
