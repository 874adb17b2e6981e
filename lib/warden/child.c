/* Starts keepers and chores as programs of their own session, hears the one line that each writes and its end
 * (by pidfd). What the line means is place.c's. */
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "lib/warden/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define READY_FD       3
#define SPEC_FD        4
#define LINE_MAX_BYTES (4u << 20)

static const char *const chore_names[] = {
    [CHILD_KEEPER] = "",     [CHILD_MEND] = "mend",   [CHILD_REMOVE] = "remove",
    [CHILD_SWEEP] = "sweep", [CHILD_TRASH] = "trash", [CHILD_SHARE] = "share",
};

/* ---- its line ---- */

static void line_done(struct child *c, const json_t *line)
{
    if (c->told)
        return;
    c->told = true;
    reactor_remove(STEAL(c->line_source));
    memory_close_fd(&c->line_fd);
    c->line_fd = -1;
    if (c->place != NULL)
        place_told(c, line);
}

static void line_ready(void *user, uint32_t events)
{
    struct child *c = user;
    (void)events;
    ssize_t got = read(c->line_fd, buffer_reserve(&c->line, 4096), 4096);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    c->line.length += got > 0 ? (size_t)got : 0;
    if (got > 0 && c->line.length <= LINE_MAX_BYTES && memchr(c->line.data, '\n', c->line.length) == NULL)
        return;
    json_auto_t *line =
        got > 0 ? json_loadb(c->line.data, c->line.length, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    buffer_free(&c->line);
    line_done(c, line);
}

/* ---- its end ---- */

static void child_ended(void *user, uint32_t events)
{
    struct child *c = user;
    siginfo_t info = { 0 };
    (void)events;
    if (!c->adopted)
        waitid(P_PIDFD, (id_t)c->pidfd, &info, WEXITED);
    if (!c->told && c->line_fd >= 0) /* what it wrote just before */
        line_ready(c, EPOLLIN);
    line_done(c, NULL);
    state_check_readers(c->warden->state);
    if (c->place != NULL)
        place_ended(c);
    else
        round_ended(c);
    child_free(c);
}

static struct child *child_new(struct warden *w, enum child_kind kind, struct place *place, int pidfd,
                               int line_fd)
{
    struct child *c = xcalloc(1, sizeof(*c));
    *c = (struct child){ .next = w->children,
                         .warden = w,
                         .place = place,
                         .kind = kind,
                         .pidfd = pidfd,
                         .line_fd = line_fd,
                         .told = line_fd < 0,
                         .deadline_ms = INT64_MAX };
    w->children = c;
    c->end_source = reactor_add(w->reactor, pidfd, EPOLLIN, child_ended, c);
    if (line_fd >= 0)
        c->line_source = reactor_add(w->reactor, line_fd, EPOLLIN, line_ready, c);
    return c;
}

void child_free(struct child *c)
{
    struct child **link = &c->warden->children;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    reactor_remove(c->end_source);
    reactor_remove(c->line_source);
    memory_close_fd(&c->pidfd);
    memory_close_fd(&c->line_fd);
    buffer_free(&c->line);
    free(c);
}

struct child *child_adopt(struct warden *w, struct place *place, pid_t pid, int pidfd)
{
    struct child *c = child_new(w, CHILD_KEEPER, place, pidfd, -1);
    c->pid = pid;
    c->adopted = true;
    return c;
}

void child_kill(struct child *c)
{
    process_pidfd_signal(c->pidfd, SIGKILL);
}

/* ---- starting ---- */

static int spec_file(const json_t *spec, struct error *err)
{
    _cleanup_free_ char *text = json_dumps(spec, JSON_COMPACT);
    _cleanup_close_ int fd = memfd_create("workspace", MFD_CLOEXEC);
    if (text == NULL || fd < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "cannot hand the workspace's record over");
    if (io_write_all(fd, text, strlen(text), err) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -1;
    return STEAL_FD(fd);
}

static size_t arguments(char *argv[static 12], struct warden *w, enum child_kind kind, const char *id,
                        bool has_spec)
{
    size_t n = 0;
    argv[n++] = (char *)w->program;
    argv[n++] = kind == CHILD_KEEPER ? "keep" : "warden";
    if (kind != CHILD_KEEPER) {
        argv[n++] = "--chore";
        argv[n++] = (char *)chore_names[kind];
    }
    if (id != NULL)
        argv[n++] = (char *)id;
    argv[n++] = "--state";
    argv[n++] = w->config->state_dir;
    argv[n++] = "--ready-fd";
    argv[n++] = "3";
    if (has_spec) {
        argv[n++] = "--spec-fd";
        argv[n++] = "4";
    }
    argv[n] = NULL;
    return n;
}

static void spawn_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(attributes);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
}

static pid_t spawn(struct warden *w, char *const argv[], int ready_fd, int spec_fd, struct error *err)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    spawn_attributes(&attributes);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ready_fd, READY_FD);
    if (spec_fd >= 0)
        posix_spawn_file_actions_adddup2(&actions, spec_fd, SPEC_FD);
    int number = posix_spawn(&pid, w->program, &actions, &attributes, argv, w->environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (number != 0)
        return error_errno(err, ERROR_INTERNAL, number, "cannot start the workspace's process");
    return pid;
}

/* Out of the way of the numbers that the child gets, so that one dup2 does not close what the next one needs.
 */
static int move_up(int fd, struct error *err)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 16);
    close(fd);
    return high >= 0 ? high : error_errno(err, ERROR_INTERNAL, errno, "cannot copy a descriptor");
}

struct child *child_start(struct warden *w, enum child_kind kind, struct place *place, const json_t *spec,
                          struct error *err)
{
    char *argv[12];
    int ends[2];
    _cleanup_close_ int spec_fd = -1;
    if (spec != NULL) {
        int fd = spec_file(spec, err);
        if (fd < 0 || (spec_fd = move_up(fd, err)) < 0)
            return NULL;
    }
    if (pipe2(ends, O_CLOEXEC) < 0) {
        error_errno(err, ERROR_INTERNAL, errno, "cannot make a pipe");
        return NULL;
    }
    _cleanup_close_ int line_fd = ends[0];
    _cleanup_close_ int ready_fd = move_up(ends[1], err);
    arguments(argv, w, kind, place != NULL ? place->id : NULL, spec != NULL);
    pid_t pid = ready_fd >= 0 ? spawn(w, argv, ready_fd, spec_fd, err) : -1;
    if (pid < 0)
        return NULL;
    int pidfd = process_pidfd_open(pid);
    if (pidfd < 0 || io_set_nonblocking(line_fd, err) < 0) {
        error_errno(err, ERROR_INTERNAL, errno, "pidfd_open");
        return NULL;
    }
    struct child *c = child_new(w, kind, place, pidfd, STEAL_FD(line_fd));
    c->pid = pid;
    return c;
}
