/* The master: a loop around sigtimedwait, so that nothing of an event loop crosses a fork. It holds the
 * listening socket and the workers' pidfds; it must not open a store or read a request. */
#include "fcgi/pool.h"

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"
#include "lib/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
    END_MS = 12 * 1000,
    SHORTEST_LIFE_MS = 1000,
    FIRST_DELAY_MS = 100,
    LONGEST_DELAY_MS = 5000,
    MOST_WORKERS = 64
};

struct member {
    pid_t pid; /* 0 = to be started at start_ms */
    int pidfd;
    int64_t start_ms;
    bool leaving; /* told to end; not replaced */
};

struct pool {
    const struct config *config;
    struct config *reloaded; /* owned; config points to it */
    pool_worker *worker;
    pool_reload *reload;
    pool_wish *wish;
    int listen_fd;
    int wish_fds[2]; /* workers write to the second */
    struct member *members;
    size_t count;
    int64_t delay_ms; /* of the next replacement that dies young */
    int64_t kill_ms;  /* 0 = not ending */
    bool ending;
    sigset_t signals;
};

/* ---- in the child ---- */

static int drop_privileges(const struct config *config)
{
    _cleanup_error_ struct error err = ERROR_INIT;

    if (config_become_owner(config, &err) == 0)
        return 0;
    log_error("the worker cannot start: %s", err.message);
    return -1;
}

static void run_child(const struct pool *p, pid_t master) __attribute__((noreturn));
static void run_child(const struct pool *p, pid_t master)
{
    process_reset_signals();
    if (drop_privileges(p->config) < 0)
        _exit(1);
    /* After the change of user, which clears it. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != master)
        _exit(0);
    for (size_t i = 0; i < p->count; i++)
        if (p->members[i].pidfd >= 0)
            close(p->members[i].pidfd);
    close(p->wish_fds[0]);
    exit(p->worker(p->config, p->listen_fd, p->wish_fds[1]));
}

/* ---- members ---- */

static void start(struct pool *p, struct member *m)
{
    pid_t master = getpid(), pid = fork();

    if (pid == 0)
        run_child(p, master);
    m->start_ms = clock_boottime_ms();
    if (pid < 0) {
        log_error("fork: %s", strerror(errno));
        m->start_ms += LONGEST_DELAY_MS;
        return;
    }
    m->pid = pid;
    m->pidfd = process_pidfd_open(pid);
    log_debug("worker %d started", (int)pid);
}

static void add_members(struct pool *p)
{
    int64_t wanted = p->config->workers;

    wanted = wanted < 1 ? 1 : wanted > MOST_WORKERS ? MOST_WORKERS : wanted;
    p->members = xreallocarray(p->members, p->count + (size_t)wanted, sizeof(*p->members));
    for (int64_t i = 0; i < wanted; i++)
        p->members[p->count++] = (struct member){ .pidfd = -1 };
}

static void remove_member(struct pool *p, size_t i)
{
    p->members[i] = p->members[--p->count];
}

static void start_due(struct pool *p)
{
    int64_t now = clock_boottime_ms();

    for (size_t i = 0; i < p->count; i++)
        if (p->members[i].pid == 0 && p->members[i].start_ms <= now)
            start(p, &p->members[i]);
}

static void tell_all(struct pool *p, int signal_number)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->members[i].pid != 0)
            process_pidfd_signal(p->members[i].pidfd, signal_number);
}

static void bury(struct pool *p, size_t i, int status)
{
    struct member *m = &p->members[i];
    int64_t now = clock_boottime_ms();
    /* Who is killed by another had no fault of his own: he is replaced at once. */
    bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    bool young = !killed && now - m->start_ms < SHORTEST_LIFE_MS;

    close(m->pidfd);
    if (m->leaving || p->ending) {
        remove_member(p, i);
        return;
    }
    if (WIFSIGNALED(status))
        log_error("worker %d was ended by signal %d", (int)m->pid, WTERMSIG(status));
    else
        log_error("worker %d ended with status %d", (int)m->pid, WEXITSTATUS(status));
    p->delay_ms = !young ? 0 : p->delay_ms == 0 ? FIRST_DELAY_MS : p->delay_ms * 2;
    p->delay_ms = p->delay_ms > LONGEST_DELAY_MS ? LONGEST_DELAY_MS : p->delay_ms;
    *m = (struct member){ .pidfd = -1, .start_ms = now + p->delay_ms };
}

static void reap(struct pool *p)
{
    int status;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (size_t i = 0; i < p->count; i++)
            if (p->members[i].pid == pid) {
                bury(p, i, status);
                break;
            }
}

/* ---- what signals ask for ---- */

static void end_all(struct pool *p)
{
    if (p->ending)
        return;
    p->ending = true;
    p->kill_ms = clock_boottime_ms() + END_MS;
    tell_all(p, SIGTERM);
    for (size_t i = p->count; i > 0; i--)
        if (p->members[i - 1].pid == 0)
            remove_member(p, i - 1);
}

/* New workers accept before the old ones stop. */
static void reload(struct pool *p)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct config *fresh = p->reload ? p->reload(&err) : NULL;

    if (fresh == NULL) {
        log_error("the settings stay as they are: %s", err.message);
        return;
    }
    config_free(p->reloaded);
    p->config = p->reloaded = fresh;
    size_t old = p->count;
    add_members(p);
    for (size_t i = old; i < p->count; i++)
        start(p, &p->members[i]);
    for (size_t i = old; i > 0; i--) {
        p->members[i - 1].leaving = true;
        if (p->members[i - 1].pid != 0)
            process_pidfd_signal(p->members[i - 1].pidfd, SIGTERM);
        else
            remove_member(p, i - 1);
    }
    log_info("settings loaded again");
}

/* However many ask, it is done once. */
static void grant_wish(struct pool *p)
{
    char bytes[256];

    while (read(p->wish_fds[0], bytes, sizeof(bytes)) == sizeof(bytes))
        ;
    if (!p->ending && p->wish != NULL)
        p->wish(p->config);
}

/* What arrives is told by a signal, since signals are all that the master waits for. */
static void open_wishes(struct pool *p)
{
    if (pipe2(p->wish_fds, O_CLOEXEC | O_NONBLOCK) < 0 || fcntl(p->wish_fds[0], F_SETOWN, getpid()) < 0 ||
        fcntl(p->wish_fds[0], F_SETFL, O_NONBLOCK | O_ASYNC) < 0) {
        log_error("no descriptors for what workers ask: %s", strerror(errno));
        abort();
    }
}

static void wait_for_signal(struct pool *p)
{
    int64_t now = clock_boottime_ms(), until = p->ending ? p->kill_ms : now + 60 * 1000;

    for (size_t i = 0; i < p->count; i++)
        if (p->members[i].pid == 0 && p->members[i].start_ms < until)
            until = p->members[i].start_ms;
    int64_t left = until > now ? until - now : 0;
    struct timespec timeout = { left / 1000, left % 1000 * 1000000 };
    switch (sigtimedwait(&p->signals, NULL, &timeout)) {
    case SIGTERM:
    case SIGINT:
        end_all(p);
        break;
    case SIGHUP:
        if (!p->ending)
            reload(p);
        break;
    case SIGIO:
        grant_wish(p);
        break;
    default:
        break;
    }
}

int pool_run(const struct config *config, int listen_fd, pool_worker *worker, pool_reload *reload_config,
             pool_wish *wish)
{
    struct pool p = {
        .config = config, .worker = worker, .reload = reload_config, .wish = wish, .listen_fd = listen_fd
    };

    sigemptyset(&p.signals);
    for (const int *s = (const int[]){ SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGIO, 0 }; *s; s++)
        sigaddset(&p.signals, *s);
    sigprocmask(SIG_BLOCK, &p.signals, NULL);
    open_wishes(&p);
    signal(SIGPIPE, SIG_IGN);
    add_members(&p);
    while (!p.ending || p.count > 0) {
        if (!p.ending)
            start_due(&p);
        else if (clock_boottime_ms() >= p.kill_ms)
            tell_all(&p, SIGKILL);
        wait_for_signal(&p);
        reap(&p);
    }
    free(p.members);
    close(p.wish_fds[0]);
    close(p.wish_fds[1]);
    config_free(p.reloaded);
    return 0;
}
