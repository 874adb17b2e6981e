/* Reads command lines in /proc: a bubblewrap carries its workspace and state directory as marks. A process
 * inside a sandbox could write the same into its own: those live in another PID namespace and are not taken.
 * Knows nothing of handles. */
#include "lib/driver/local/find.h"

#include "lib/base/buffer.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/driver/local/bwrap.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

static bool read_proc(const char *pid, const char *file, struct buffer *ret)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%.12s/%s", pid, file);
    return !io_read_file(AT_FDCWD, path, 64 << 10, ret, NULL) && *buffer_text(ret);
}

/* The word after --setenv NAME, within the fixed head of the command line. */
static const char *mark(const struct buffer *line, const char *name)
{
    const char *at = line->data, *end = line->data + line->length, *words[8];
    size_t count = 0;
    for (; at < end && count < N_ELEMENTS(words); at += strlen(at) + 1)
        words[count++] = at;
    for (size_t i = 1; i + 2 < count; i++)
        if (!strcmp(words[i], "--setenv") && !strcmp(words[i + 1], name))
            return words[i + 2];
    return NULL;
}

/* NSpid lists the pid in each namespace from the reader's down: one number = the reader's own. */
static bool in_own_namespace(const char *pid)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    long outer = 0, inner = 0;
    const char *line = read_proc(pid, "status", &text) ? strstr(text.data, "\nNSpid:") : NULL;
    return line && sscanf(line, "\nNSpid:\t%ld%*[\t]%ld", &outer, &inner) == 1;
}

static pid_t first_child(const char *pid)
{
    char file[64];
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    snprintf(file, sizeof(file), "task/%.12s/children", pid);
    return read_proc(pid, file, &text) ? (pid_t)strtol(text.data, NULL, 10) : 0;
}

static void look_at(const char *pid, const char *state_dir, find_hit *hit, void *user)
{
    _cleanup_buffer_ struct buffer name = BUFFER_INIT, line = BUFFER_INIT;
    if (!read_proc(pid, "comm", &name) || strcmp(name.data, "bwrap\n") || !read_proc(pid, "cmdline", &line))
        return;
    const char *workspace = mark(&line, BWRAP_MARK_WORKSPACE), *directory = mark(&line, BWRAP_MARK_STATE_DIR);
    if (!workspace || !directory || strcmp(directory, state_dir) || !id_is_valid(ID_WORKSPACE, workspace) ||
        !in_own_namespace(pid))
        return;
    hit(user, workspace, (pid_t)strtol(pid, NULL, 10), first_child(pid));
}

int find_sandboxes(const char *state_dir, find_hit *hit, void *user, struct error *err)
{
    DIR *processes = opendir("/proc");
    if (!processes)
        return error_errno(err, ERROR_DRIVER, errno, "cannot list processes");
    for (struct dirent *entry; (entry = readdir(processes));)
        if (isdigit((unsigned char)entry->d_name[0]))
            look_at(entry->d_name, state_dir, hit, user);
    closedir(processes);
    return 0;
}
