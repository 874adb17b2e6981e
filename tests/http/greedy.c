/* Takes all that it can get of one thing that the kernel counts for a user or for everybody, and holds it
 * until its input ends; or looks whether a little of each is still there. Compiled and run inside a sandbox
 * by test_neighbours. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- one of each: 0, or -1 with errno ---- */

static int watch_instance(void)
{
    return inotify_init1(IN_CLOEXEC) < 0 ? -1 : 0;
}

static int watch_file(void)
{
    static int fd = -1, count;
    char path[64];
    if (fd < 0 && (fd = inotify_init1(IN_CLOEXEC)) < 0)
        return -1;
    snprintf(path, sizeof path, "/tmp/watched-%d", count++);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return inotify_add_watch(fd, path, IN_MODIFY) < 0 ? -1 : 0;
}

/* Every event descriptor into every set: the number grows with the square of the descriptors. */
static int event_watch(void)
{
    static int targets[3000], n_targets, set = -1, at;
    while (n_targets < 3000 && (targets[n_targets] = eventfd(0, 0)) >= 0)
        n_targets++;
    if (set < 0 || at == n_targets) {
        at = 0;
        if ((set = epoll_create1(EPOLL_CLOEXEC)) < 0)
            return -1;
    }
    struct epoll_event event = { .events = EPOLLIN };
    return epoll_ctl(set, EPOLL_CTL_ADD, targets[at++], &event);
}

static int pipe_pages(void)
{
    int ends[2];
    if (pipe(ends))
        return -1;
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    return 0;
}

static int pending_signal(void)
{
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    return sigqueue(getpid(), SIGRTMIN + 5, (union sigval){ 0 });
}

static int timer(void)
{
    timer_t made;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    return timer_create(CLOCK_MONOTONIC, &event, &made);
}

static int message_queue(void)
{
    static int count;
    char name[64];
    struct mq_attr small = { .mq_maxmsg = 1, .mq_msgsize = 1024 };
    snprintf(name, sizeof name, "/greedy-%d-%d", getpid(), count++);
    int queue = mq_open(name, O_RDWR | O_CREAT, 0600, &small);
    mq_unlink(name); /* it stays as long as it is open */
    return queue < 0 ? -1 : 0;
}

static int terminal(void)
{
    return posix_openpt(O_RDWR | O_NOCTTY) < 0 ? -1 : 0;
}

static int descriptor_on_its_way(void)
{
    static int pair[2] = { -1, -1 }, sent;
    char byte = 0, control[CMSG_SPACE(sizeof(int) * 100)] = { 0 };
    struct iovec data = { &byte, 1 };
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
    };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (sent++ % 4 == 0 && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
        return -1;
    *head = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
                              .cmsg_type = SCM_RIGHTS,
                              .cmsg_len = CMSG_LEN(sizeof(int) * 100) };
    for (int i = 0; i < 100; i++)
        memcpy(CMSG_DATA(head) + i * (int)sizeof(int), &(int){ 0 }, sizeof(int));
    return sendmsg(pair[0], &message, MSG_DONTWAIT) < 0 ? -1 : 0;
}

static int file(void)
{
    return open("/dev/null", O_RDONLY) < 0 ? -1 : 0;
}

static int shared_memory(void)
{
    return shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) < 0 ? -1 : 0;
}

static int message_list(void)
{
    return msgget(IPC_PRIVATE, IPC_CREAT | 0600) < 0 ? -1 : 0;
}

static int group_of_files(void)
{
    return syscall(SYS_fanotify_init, 0x200, 0) < 0 ? -1 : 0; /* FAN_REPORT_FID: without privileges */
}

static const struct thing {
    const char *name;
    int (*take)(void);
    long most;
} things[] = {
    { "inotify", watch_instance, 5000 },        { "inotify-watches", watch_file, 250000 },
    { "epoll", event_watch, 20000000 },         { "pipes", pipe_pages, 5000 },
    { "signals", pending_signal, 400000 },      { "timers", timer, 400000 },
    { "queues", message_queue, 2000 },          { "terminals", terminal, 5000 },
    { "passed", descriptor_on_its_way, 20000 }, { "files", file, 1000000 },
    { "memory", shared_memory, 5000 },          { "messages", message_list, 40000 },
    { "fanotify", group_of_files, 2000 },
};

static int take_all(const struct thing *thing)
{
    struct rlimit files;
    char byte;
    long count = 0;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    while (count < thing->most && thing->take() == 0)
        count++;
    printf("taken %ld %s: %s\n", count, thing->name,
           count < thing->most ? strerror(errno) : "all that was asked for");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

static int look(void)
{
    int missing = 0;
    for (size_t i = 0; i < COUNT(things); i++)
        for (int k = 0; k < 3; k++)
            if (things[i].take()) {
                printf("no %s: %s\n", things[i].name, strerror(errno));
                missing++;
                break;
            }
    if (!missing)
        printf("all there\n");
    return missing != 0;
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < COUNT(things) && argc == 2; i++)
        if (!strcmp(argv[1], things[i].name))
            return take_all(&things[i]);
    return look();
}
