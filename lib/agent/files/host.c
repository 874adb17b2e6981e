/* Owns a process that serves several calls, from its start to its end, on both sides: what is passed on, and
 * the thread that takes it. Its first thread only takes what comes and parts what the kernel tells, so that
 * no call waits for another one's disk. What a call does is in a file of its own. */
#include "lib/agent/files/host.h"

#include "lib/agent/watch/instance.h"
#include "lib/base/io.h"
#include "lib/schema/field.h"
#include "lib/wire/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define STACK_SIZE (512u << 10)
#define ARENAS     2 /* of malloc: each keeps what its threads have freed */

/* What a call takes with it. */
enum { WITH_OUTPUT, WITH_REPLY, WITH_REQUEST, WITH_COUNT };

/* ---- inside ---- */

struct inside {
    const struct launch_rules *rules;
    file_call_run *run;
    int socket, root_fd;
    struct instance *instance;
};

struct guest {
    struct file_call_context call;
    file_call_run *run;
    json_t *request;
};

static void guest_free(struct guest *guest)
{
    memory_close_fd(&guest->call.output);
    memory_close_fd(&guest->call.reply_fd);
    json_decref(guest->request);
    free(guest);
}

static void answer(struct guest *guest, const json_t *ret, const struct error *err)
{
    if (guest->call.reply_fd >= 0)
        file_call_reply(&guest->call, ret, err);
}

static void *serve(void *user)
{
    struct guest *guest = user;
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *ret = NULL;
    int rc = guest->run(&guest->call, &ret, &err);
    answer(guest, ret, rc < 0 ? &err : NULL);
    guest_free(guest);
    return NULL;
}

static bool start_thread(struct guest *guest)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int problem = pthread_create(&thread, &attributes, serve, guest);
    pthread_attr_destroy(&attributes);
    return problem == 0;
}

static int take_in(struct inside *in, struct guest *guest, struct error *err)
{
    if (!guest->request)
        return error_set(err, ERROR_UNAVAILABLE, "the request was not understood in its process");
    if (in->root_fd < 0)
        in->root_fd = open(in->rules->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (in->root_fd < 0)
        return error_errno(err, ERROR_DRIVER, errno, "the workspace cannot be opened");
    if (!in->instance)
        in->instance = instance_open(err);
    guest->call.root = (struct path_root){ .path = in->rules->workspace, .fd = in->root_fd };
    guest->call.instance = in->instance;
    if (!in->instance)
        return -1;
    return start_thread(guest) ? 0
                               : error_set(err, ERROR_UNAVAILABLE,
                                           "no thread could be started for the file operation: try again");
}

static void welcome(struct inside *in, json_t *request, int output, int reply)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct guest *guest = xcalloc(1, sizeof *guest);
    *guest = (struct guest){ .run = in->run, .request = request };
    guest->call = (struct file_call_context){
        .request = request, .rules = in->rules, .input = -1, .output = output, .reply_fd = reply, .turns = -1
    };
    if (take_in(in, guest, &err) == 0)
        return;
    answer(guest, NULL, &err);
    guest_free(guest);
}

static json_t *read_request(int fd)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    size_t room = FRAME_MESSAGE_MAX + 1;
    ssize_t got = pread(fd, buffer_reserve(&text, room), room, 0);
    return got > 0 ? field_parse_json(text.data, (size_t)got, NULL) : NULL;
}

union passed {
    char bytes[CMSG_SPACE(sizeof(int[WITH_COUNT]))];
    struct cmsghdr head;
};

/* False: nobody will come any more. */
static bool take_next(struct inside *in)
{
    char byte;
    union passed passed;
    struct iovec data = { &byte, 1 };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = passed.bytes, .msg_controllen = sizeof passed
    };
    ssize_t got = recvmsg(in->socket, &message, MSG_CMSG_CLOEXEC);
    if (got <= 0)
        return got < 0 && errno == EINTR;
    int fds[WITH_COUNT] = { -1, -1, -1 }; /* fewer come where there is no number for another one */
    const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_len <= CMSG_LEN(sizeof fds))
        memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
    json_t *request = fds[WITH_REQUEST] < 0 ? NULL : read_request(fds[WITH_REQUEST]);
    welcome(in, request, fds[WITH_OUTPUT], fds[WITH_REPLY]);
    memory_close_fd(&fds[WITH_REQUEST]);
    return true;
}

static void live(struct inside *in)
{
    for (;;) {
        struct pollfd fds[] = { { .fd = in->socket, .events = POLLIN },
                                { .fd = in->instance ? instance_fd(in->instance) : -1, .events = POLLIN } };
        poll(fds, N_ELEMENTS(fds), -1);
        if (fds[1].revents)
            instance_read(in->instance);
        if (fds[0].revents && !take_next(in))
            return;
    }
}

/* Nothing of PID 1 may stay open here. Puts the three above the others, and the socket. */
static void keep_only(int fds[3])
{
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0)
        _exit(2);
    for (int i = 0; i < 3; i++)
        if ((fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 16)) < 0)
            _exit(2);
    if (dup2(nothing, 0) < 0 || dup2(nothing, 1) < 0)
        _exit(2);
    for (int i = 0; i < 3; i++) {
        if (dup3(fds[i], 3 + i, O_CLOEXEC) < 0)
            _exit(2);
        fds[i] = 3 + i;
    }
    if (close_range(6, ~0U, 0) < 0)
        for (int fd = 6; fd < 4096; fd++)
            close(fd);
}

static _Noreturn void run(const struct launch_rules *rules, const struct file_kind *kind,
                          const json_t *request, int fds[3])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_NAME, "ws-watch");
    signal(SIGPIPE, SIG_IGN);
    mallopt(M_ARENA_MAX, ARENAS);
    keep_only(fds);
    struct inside in = { .rules = rules, .run = kind->run, .socket = fds[2], .root_fd = -1 };
    welcome(&in, json_deep_copy(request), fds[WITH_OUTPUT], fds[WITH_REPLY]);
    live(&in);
    _exit(0);
}

/* ---- outside ---- */

struct ways {
    int output[2], reply[2]; /* reading, writing */
};

static void close_ways(struct ways *ways)
{
    for (int end = 0; end < 2; end++) {
        memory_close_fd(&ways->output[end]);
        memory_close_fd(&ways->reply[end]);
    }
}
#define _cleanup_ways_ __attribute__((cleanup(close_ways)))

static int open_ways(struct ways *ways)
{
    if (pipe2(ways->output, O_CLOEXEC) < 0 || pipe2(ways->reply, O_CLOEXEC) < 0)
        return -1;
    fcntl(ways->output[0], F_SETFL, O_NONBLOCK);
    fcntl(ways->reply[0], F_SETFL, O_NONBLOCK);
    return 0;
}

static struct file_host *start(const struct launch_rules *rules, const struct file_kind *kind,
                               const json_t *request, const struct ways *ways)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return NULL;
    pid_t pid = fork();
    if (pid == 0)
        run(rules, kind, request, (int[]){ ways->output[1], ways->reply[1], sockets[1] });
    close(sockets[1]);
    if (pid < 0) {
        close(sockets[0]);
        return NULL;
    }
    struct file_host *host = xcalloc(1, sizeof *host);
    *host = (struct file_host){ .pid = pid, .socket = sockets[0] };
    return host;
}

static int write_request(const json_t *request)
{
    _cleanup_free_ char *text = json_dumps(request, JSON_COMPACT);
    int fd = text ? memfd_create("request", MFD_CLOEXEC) : -1;
    if (fd >= 0 && io_write_all(fd, text, strlen(text), NULL) < 0)
        close(STEAL_FD(fd));
    return fd;
}

/* False: it is dead or busy, or the system's user has too many descriptors on their way (unix(7)). */
static bool pass_on(const struct file_host *host, const json_t *request, const struct ways *ways)
{
    _cleanup_close_ int request_fd = write_request(request);
    const int fds[WITH_COUNT] = { ways->output[1], ways->reply[1], request_fd };
    union passed passed = {
        .head = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds) }
    };
    struct iovec data = { "", 1 };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = passed.bytes, .msg_controllen = sizeof passed
    };
    memcpy(CMSG_DATA(&passed.head), fds, sizeof fds);
    return request_fd >= 0 && sendmsg(host->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

struct file_host *file_host_join(struct file_host **at, const struct launch_rules *rules,
                                 const struct file_kind *kind, const json_t *request, struct file_pipes *ret)
{
    _cleanup_ways_ struct ways ways = { { -1, -1 }, { -1, -1 } };
    if (open_ways(&ways) < 0)
        return NULL;
    struct file_host *host = *at;
    if (!host || !pass_on(host, request, &ways))
        host = start(rules, kind, request, &ways);
    if (!host)
        return NULL;
    *at = host;
    host->calls++;
    ret->input = -1;
    ret->output = STEAL_FD(ways.output[0]);
    ret->reply = STEAL_FD(ways.reply[0]);
    return host;
}

void file_host_leave(struct file_host **at, struct file_host *host)
{
    if (--host->calls > 0)
        return;
    if (*at == host)
        *at = NULL;
    close(host->socket);
    free(host);
}
