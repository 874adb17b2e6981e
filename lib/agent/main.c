/* workspace-agent: the first process of a sandbox (or a plain child, for a driver without one). Owns its
 * command line and what the process is before anything runs: not dumpable, adopter of orphans, small. */
#include "lib/agent/agent.h"
#include "lib/agent/fence.h"
#include "lib/base/io.h"

#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>

const char *__asan_default_options(void);

struct settings {
    int channel_fd, seccomp_fd;
    struct launch_rules rules;
};

/* A process that is not dumpable cannot be looked through for leaks; a handler of faults would let anybody in
 * the sandbox end PID 1 by sending the signal. */
const char *__asan_default_options(void)
{
    return "detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0";
}

static int fail(const char *text)
{
    fprintf(stderr, "workspace-agent: %s\n", text);
    return 2;
}

static long number_or(const char *text, long least, long most, long otherwise)
{
    char *end;
    long number = strtol(text, &end, 10);
    return *text && !*end && number >= least && number <= most ? number : otherwise;
}

static int parse_options(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = {
        { "channel", required_argument, NULL, 'c' },
        { "seccomp", required_argument, NULL, 's' },
        { "processes", required_argument, NULL, 'p' },
        { "workspace", required_argument, NULL, 'w' },
        { "home", required_argument, NULL, 'h' },
        { "ripgrep", required_argument, NULL, 'r' },
        { NULL, 0, NULL, 0 },
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'c':
            settings->channel_fd = (int)number_or(optarg, 0, 1 << 20, -1);
            break;
        case 's':
            settings->seccomp_fd = (int)number_or(optarg, 0, 1 << 20, -2);
            break;
        case 'p':
            settings->rules.processes = number_or(optarg, 1, 1 << 22, -1);
            break;
        case 'w':
            settings->rules.workspace = optarg;
            break;
        case 'h':
            settings->rules.home = optarg;
            break;
        case 'r':
            settings->rules.ripgrep = optarg;
            break;
        default:
            return -1;
        }
    bool wrong = optind < argc || settings->channel_fd < 0 || settings->seccomp_fd == -2 ||
                 settings->rules.processes < 0;
    return wrong ? -1 : 0;
}

/* The whole filter program, as the kernel takes it. Without it no command may run, so anything odd is the
 * end. */
static int read_filter(int fd, struct sock_fprog *filter)
{
    size_t size = BPF_MAXINSNS * sizeof *filter->filter, length = 0;
    filter->filter = xmalloc(size + 1);
    lseek(fd, 0, SEEK_SET);
    for (ssize_t got;
         length <= size && (got = read(fd, (char *)filter->filter + length, size + 1 - length)) > 0;)
        length += (size_t)got;
    close(fd);
    if (!length || length > size || length % sizeof *filter->filter)
        return -1;
    filter->filter = xreallocarray(filter->filter, 1, length);
    filter->len = (unsigned short)(length / sizeof *filter->filter);
    return 0;
}

/* Descriptors 0-2 must be taken, or a pipe of a command would get such a number. */
static void fill_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

/* Anybody in the sandbox may send these. Faults are left alone; CHLD is how children are noticed. */
static void ignore_signals(void)
{
    static const int kept[] = { SIGCHLD, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
    for (int number = 1; number <= SIGRTMAX; number++) {
        bool keep = false;
        for (size_t i = 0; i < N_ELEMENTS(kept); i++)
            keep |= kept[i] == number;
        if (!keep)
            signal(number, SIG_IGN);
    }
}

static void prepare_process(struct launch_rules *rules)
{
    prctl(PR_SET_DUMPABLE, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    umask(022);
    setsid();
    ignore_signals();
    fence_install();
    getrlimit(RLIMIT_NOFILE, &rules->files);
    struct rlimit raised = { rules->files.rlim_max, rules->files.rlim_max };
    setrlimit(RLIMIT_NOFILE, &raised);
    mallopt(M_ARENA_MAX, 1);
    /* Fixed, so that busy times pay for no mmap and brk; agent.c trims when it is quiet. */
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

int main(int argc, char **argv)
{
    struct settings settings = {
        -1, -1, { .workspace = "/workspace", .home = "/home/workspace", .ripgrep = "/run/workspace/rg" }
    };
    if (parse_options(argc, argv, &settings) < 0)
        return fail("usage: workspace-agent --channel FD [--seccomp FD] [--processes N] [--workspace DIR] "
                    "[--home DIR] [--ripgrep PROGRAM]");
    fill_standard_descriptors();
    prepare_process(&settings.rules);
    if (settings.seccomp_fd >= 0 && read_filter(settings.seccomp_fd, &settings.rules.filter) < 0)
        return fail("the system call filter cannot be read");
    fcntl(settings.channel_fd, F_SETFD, FD_CLOEXEC);
    agent_run(&settings.rules, settings.channel_fd);
    free(settings.rules.filter.filter);
    return 0;
}
