/* Starts and ends a whole installation, and finds its processes again. It knows command lines and folders,
 * nothing of how the gateway works. */
#include "tests/support/instance.h"
#include "tests/support/must.h"

#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "tests/support/instance_private.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

long long now_ms(void)
{
    return clock_boottime_ms();
}

void sleep_ms(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

const char *build_path(const char *program)
{
    static char path[PATH_MAX];
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    must_hold(length > 0);
    self[length] = '\0';
    char *tests = strstr(self, "/tests/");
    must_hold(tests != NULL);
    *tests = '\0';
    snprintf(path, sizeof path, "%.3000s/%s", self, program);
    return path;
}

static int free_port(void)
{
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    must_hold(bind(fd, (struct sockaddr *)&address, size) == 0);
    must_hold(getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    return ntohs(address.sin_port);
}

/* Whom the workers become where the test is root. Another user's limits (inotify, epoll) are then another's
 * too. */
static const struct passwd *worker_user(void)
{
    const char *name = getenv("WORKSPACE_USER");
    return getpwnam(name && *name ? name : "www-data");
}

/* World-executable folders so that that user reaches the state directory; the state itself is private. */
static char *make_state_dir(void)
{
    char *path = xstrdup("/tmp/wsf-test-XXXXXX");
    must_hold(mkdtemp(path) != NULL);
    must_hold(chmod(path, 0711) == 0);
    return path;
}

/* Whom an unprivileged installation runs as, and who owns its folder. */
static void find_user(const struct instance_options *options, uid_t *uid, gid_t *gid)
{
    const struct passwd *user = worker_user();
    *uid = options && options->uid ? options->uid : user ? user->pw_uid : geteuid();
    *gid = options && options->uid ? options->uid : user ? user->pw_gid : getegid();
}

static void become(const struct instance_options *options)
{
    uid_t uid;
    gid_t gid;
    find_user(options, &uid, &gid);
    if (setgid(gid) != 0 || setuid(uid) != 0)
        _exit(126);
}

static void child_exec(const struct instance *i, const struct instance_options *options, int log_fd)
{
    char port[16];
    snprintf(port, sizeof port, "%d", i->port);
    process_reset_signals();
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    setenv("PORT", port, 1);
    setenv("HOST", "127.0.0.1", 1);
    setenv("TOKEN", i->token, 1);
    for (const char *const *e = options ? options->environment : NULL; e && *e; e++)
        putenv(xstrdup(*e));
    if (options && options->unprivileged && geteuid() == 0)
        become(options);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a change of user would clear it */
    execl(i->program, "workspace-fcgi", "run", "--state", i->state_dir, (char *)NULL);
    _exit(127);
}

static void wait_ready(struct instance *i)
{
    long long deadline = now_ms() + 20000;
    struct http_options quick = { .token = "", .timeout_ms = 2000, .unchecked = true };
    while (now_ms() < deadline) {
        struct answer a = http_send(i, "GET", "/healthz", &quick);
        long status = a.status;
        answer_clear(&a);
        if (status == 200)
            return;
        int ended = waitpid(i->pid, NULL, WNOHANG);
        must(ended != i->pid, "workspace-fcgi run ended at once; its log: %s/test.log", i->folder);
        sleep_ms(20);
    }
    must(false, "no answer from /healthz within 20 s; log: %s/test.log", i->folder);
}

struct instance *instance_start(const struct instance_options *options)
{
    struct instance *i = xcalloc(1, sizeof *i);
    i->port = free_port();
    i->folder = options && options->state_dir ? NULL : make_state_dir();
    i->state_dir = i->folder ? xasprintf("%s/state", i->folder) : xstrdup(options->state_dir);
    if (i->folder) {
        must_hold(mkdir(i->state_dir, 0755) == 0);
        uid_t uid;
        gid_t gid;
        find_user(options, &uid, &gid);
        if (geteuid() == 0)
            must_hold(chown(i->state_dir, uid, gid) == 0);
    }
    id_random_hex(i->token, 40);
    snprintf(i->url, sizeof i->url, "http://127.0.0.1:%d", i->port);
    i->program = xstrdup(build_path("workspace-fcgi"));
    i->log_path = options && options->log_path
                      ? xstrdup(options->log_path)
                      : xasprintf("%s/test.log", i->folder ? i->folder : i->state_dir);
    _cleanup_close_ int log_fd = open(i->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    must_hold(log_fd >= 0);
    i->pid = fork();
    must_hold(i->pid >= 0);
    if (i->pid == 0)
        child_exec(i, options, log_fd);
    wait_ready(i);
    return i;
}

/* Reads /proc/PID/cmdline with NULs as spaces. */
static bool read_command_line(pid_t pid, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    if (length <= 0)
        return false;
    for (ssize_t k = 0; k < length; k++)
        if (text[k] == '\0')
            text[k] = ' ';
    text[length] = '\0';
    return true;
}

static bool is_ours(const struct instance *i, pid_t pid, const char *subcommand)
{
    char line[8192], word[64];
    if (!read_command_line(pid, line, sizeof line) || !strstr(line, i->state_dir))
        return false;
    snprintf(word, sizeof word, " %s ", subcommand);
    return subcommand[0] == '\0' || strstr(line, word) ||
           (strstr(line, subcommand) && strcmp(subcommand, "lighttpd") == 0);
}

size_t instance_processes(const struct instance *i, const char *subcommand, pid_t *pids, size_t size)
{
    size_t count = 0;
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    while (proc && (entry = readdir(proc)))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && count < size &&
            is_ours(i, atoi(entry->d_name), subcommand) && atoi(entry->d_name) != getpid())
            pids[count++] = atoi(entry->d_name);
    if (proc)
        closedir(proc);
    return count;
}

size_t instance_signal(const struct instance *i, const char *subcommand, int signal_number)
{
    pid_t pids[256];
    size_t count = instance_processes(i, subcommand, pids, N_ELEMENTS(pids)), sent = 0;
    for (size_t k = 0; k < count; k++) {
        _cleanup_close_ int pidfd = process_pidfd_open(pids[k]);
        if (pidfd >= 0 && is_ours(i, pids[k], subcommand) && process_pidfd_signal(pidfd, signal_number) == 0)
            sent++;
    }
    return sent;
}

static void wait_gone(struct instance *i)
{
    long long deadline = now_ms() + 15000;
    while (now_ms() < deadline) {
        if (waitpid(i->pid, NULL, WNOHANG) == i->pid)
            return;
        sleep_ms(10);
    }
    kill(i->pid, SIGKILL); /* our own child, not reaped yet */
    waitpid(i->pid, NULL, 0);
    must(false, "workspace-fcgi run did not end within 15 s of SIGTERM; log: %s", i->log_path);
}

static void check_nothing_left(const struct instance *i)
{
    pid_t pids[64];
    size_t count;
    long long deadline = now_ms() + 3000;
    while ((count = instance_processes(i, "", pids, N_ELEMENTS(pids))) > 0 && now_ms() < deadline)
        sleep_ms(20);
    if (count == 0)
        return;
    char line[8192] = "";
    read_command_line(pids[0], line, sizeof line);
    must(false, "%zu processes left behind, the first: %d %s", count, pids[0], line);
}

void instance_stop(struct instance *i)
{
    kill(i->pid, SIGTERM); /* our own child, not reaped yet */
    wait_gone(i);
    check_nothing_left(i);
    struct error err = ERROR_INIT;
    if (i->folder && io_remove_tree(AT_FDCWD, i->folder, &err) != 0)
        must(false, "removing %s: %s", i->folder, err.message);
    free(i->folder);
    free(i->state_dir);
    free(i->program);
    free(i->log_path);
    free(i);
}

const char *instance_url(const struct instance *i)
{
    return i->url;
}

const char *instance_token(const struct instance *i)
{
    return i->token;
}

const char *instance_state(const struct instance *i)
{
    return i->state_dir;
}
