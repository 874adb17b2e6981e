/* Runs what sandboxed code may try, see hostile.h: compiled and run inside a sandbox by test_escape. Each
 * attempt is a row. */
#include "tests/http/hostile.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int secret_count;
char **secrets;
const char *abstract_name, *socket_path;

char note[400];

bool opens(const char *path, int flags)
{
    int fd = open(path, flags, 0755);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static const struct attempt {
    const char *name;
    bool (*run)(void);
} attempts[] = {
    { "inherited descriptors", inherited_descriptors },
    { "descriptors of everybody", descriptors_of_everybody },
    { "files of others by path", by_path },
    { "files of others by /proc", by_proc },
    { "files of others by symbolic link", by_symbolic_link },
    { "files of others by chroot", by_chroot },
    { "reading PID 1 and supervisors", reads_guards },
    { "writing to PID 1 and supervisors", writes_guards },
    { "their namespaces", namespaces_of_guards },
    { "tracing them", traces_guards },
    { "their memory", memory_of_guards },
    { "their descriptors", descriptors_of_guards },
    { "their limits", limits_of_guards },
    { "signals to PID 1", signals_to_first },
    { "abstract sockets of the host", abstract_sockets },
    { "sockets of the gateway", path_sockets },
    { "system calls", all_calls },
    { "system calls of 32 bits", calls_of_ia32 },
    { "joining namespaces", joins_own_namespaces },
    { "becoming another user", becomes_another },
    { "mounts without nosuid and nodev", mounts_let_in },
    { "devices", opens_devices },
    { "set-user-id bits", set_user_bits },
    { "settings of the kernel", kernel_settings },
    { "network of the host", network_of_the_host },
    { "replacing programs", replaces_programs },
    { "making files", makes_files },
};

static bool run(const struct attempt *attempt)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);
        bool done = attempt->run();
        printf("%s: %s%s\n", attempt->name, done ? "GOT " : "refused", done ? note : "");
        fflush(stdout);
        _exit(done ? 1 : 0);
    }
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s: ended by signal %d\n", attempt->name, WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

/* ABSTRACT-NAME SOCKET-PATH DEVICE:INODE... */
int main(int argc, char **argv)
{
    bool any = false;
    if (argc < 4)
        return 2;
    abstract_name = argv[1];
    socket_path = argv[2];
    secrets = argv + 3;
    secret_count = argc - 3;
    for (size_t i = 0; i < COUNT(attempts); i++)
        any |= run(&attempts[i]);
    printf("%zu attempts\n", COUNT(attempts));
    return any;
}
