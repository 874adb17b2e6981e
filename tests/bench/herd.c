/* The herd's process: one epoll loop over its sockets. It parses no more of an answer than its length, status
 * and next_cursor. */
#include "tests/bench/herd.h"

#include "lib/base/buffer.h"
#include "tests/support/must.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_LEAST_S 20 /* each waits a little longer than the one before: they do not all end at once */
#define WAIT_SPREAD  11
#define BLOCK        16384
/* New clients without an answer: more than somaxconn (4,096) at one moment would overflow the listening
 * socket. */
#define BURST 1000

struct told { /* shared by both processes */
    atomic_ulong answers, refused;
};

struct herd {
    pid_t pid;
    struct told *told;
};

struct poll_client {
    int fd;
    const struct herd_exec *exec;
    unsigned number;
    unsigned long cursor;
    struct buffer in;
};

struct many_polls {
    const struct instance *instance;
    struct told *told;
    int epoll_fd;
    struct poll_client *clients;
    size_t count;
};

/* ---- one client ---- */

static void ask(struct many_polls *f, struct poll_client *c)
{
    char request[600];
    int length =
        snprintf(request, sizeof request,
                 "GET /api/workspaces/%s/realtime-execs/%s/events?cursor=%lu&wait_seconds=%u HTTP/1.1\r\n"
                 "Host: bench\r\nAuthorization: Bearer %s\r\n\r\n",
                 c->exec->ws, c->exec->ex, c->cursor, WAIT_LEAST_S + c->number % WAIT_SPREAD,
                 instance_token(f->instance));
    c->in.length = 0;
    must(send(c->fd, request, (size_t)length, MSG_NOSIGNAL) == length, "a client of the herd: %m");
}

static void join(struct many_polls *f, struct poll_client *c)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    to.sin_port = htons((uint16_t)atoi(strrchr(instance_url(f->instance), ':') + 1));
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(c->fd >= 0 && connect(c->fd, (struct sockaddr *)&to, sizeof to) == 0, "connecting: %m");
    must_hold(fcntl(c->fd, F_SETFL, O_NONBLOCK) == 0);
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
    must_hold(epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, c->fd, &event) == 0);
    ask(f, c);
}

static bool is_whole(const struct poll_client *c)
{
    const char *body = strstr(c->in.data, "\r\n\r\n"), *length = strcasestr(c->in.data, "Content-Length:");
    if (!body)
        return false;
    must(length && length < body, "no length: %.300s", c->in.data);
    return c->in.length >= (size_t)(body + 4 - c->in.data) + strtoul(length + 15, NULL, 10);
}

static void take_answer(struct many_polls *f, struct poll_client *c)
{
    const char *next = strstr(c->in.data, "\"next_cursor\":");
    if (strncmp(c->in.data, "HTTP/1.1 200", 12) == 0 && next)
        c->cursor = strtoul(next + 14, NULL, 10);
    else if (atomic_fetch_add(&f->told->refused, 1) == 0)
        fprintf(stderr, "herd: %.400s\n", c->in.data);
    atomic_fetch_add(&f->told->answers, 1);
    ask(f, c);
}

static void take_bytes(struct many_polls *f, struct poll_client *c)
{
    ssize_t got = recv(c->fd, buffer_reserve(&c->in, BLOCK), BLOCK - 1, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close(c->fd);
        join(f, c);
        return;
    }
    c->in.length += (size_t)got;
    buffer_text(&c->in);
    if (is_whole(c))
        take_answer(f, c);
    if (c->in.length == 0)
        buffer_free(&c->in);
}

/* ---- the process ---- */

static _Noreturn void run(struct many_polls *f, const struct herd_exec *execs, size_t count)
{
    struct epoll_event events[256];
    struct rlimit limit;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    f->clients = xcalloc(f->count, sizeof *f->clients);
    for (size_t joined = 0;;) {
        for (; joined < f->count && joined < atomic_load(&f->told->answers) + BURST; joined++) {
            f->clients[joined] =
                (struct poll_client){ .exec = &execs[joined % count], .number = (unsigned)joined };
            join(f, &f->clients[joined]);
        }
        int ready = epoll_wait(f->epoll_fd, events, 256, -1);
        for (int k = 0; k < ready; k++)
            take_bytes(f, events[k].data.ptr);
    }
}

struct herd *herd_start(const struct instance *i, const struct herd_exec *execs, size_t count, size_t polls)
{
    struct herd *h = xcalloc(1, sizeof *h);
    h->told = mmap(NULL, sizeof *h->told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must_hold(h->told != MAP_FAILED);
    h->pid = fork();
    must_hold(h->pid >= 0);
    if (h->pid == 0)
        run(&(struct many_polls){ .instance = i, .told = h->told, .count = polls }, execs, count);
    long long deadline = now_ms() + 20000;
    while (herd_answers(h) < polls) {
        must(now_ms() < deadline, "only %lu of %zu polls were parked in 20 s", herd_answers(h), polls);
        sleep_ms(10);
    }
    sleep_ms(200);
    return h;
}

unsigned long herd_answers(const struct herd *h)
{
    return atomic_load(&h->told->answers);
}

void herd_end(struct herd *h)
{
    kill(h->pid, SIGKILL); /* our own child, not reaped yet */
    waitpid(h->pid, NULL, 0);
    unsigned long refused = atomic_load(&h->told->refused);
    must(refused == 0, "%lu of %lu answers were no page of events", refused, herd_answers(h));
    munmap(h->told, sizeof *h->told);
    free(h);
}
