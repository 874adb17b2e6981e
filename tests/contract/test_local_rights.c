/* What the local driver promises beyond the contract: what may be done in a sandbox, as whom, and with which
 * network. */
#include "tests/support/local_case.h"
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* ---- what may be done ---- */

/* Refused by the filter, not for another reason: EPERM, ENOSYS, EAFNOSUPPORT. */
#define CALL(arguments) "perl -e 'exit(syscall(" arguments ") < 0 && grep { $! == $_ } 1, 38, 97)'"
static const char *const refused[] = {
    "unshare -Ur true",
    "unshare -m true",
    "unshare -p -f true",
    "mount -t tmpfs x /tmp",
    "mount --bind /usr /tmp",
    "umount /tmp",
    "chroot / true",
    "mknod /tmp/n c 1 3",
    "setpriv --reuid 0 true",
    "nsenter -t 1 -m true",
    "dmesg",
    CALL("425, 8, 0"),                          /* io_uring_setup */
    CALL("250, 0, -3, 1"),                      /* keyctl */
    CALL("248, \"user\", \"x\", \"y\", 1, -3"), /* add_key */
    CALL("321, 0, 0, 0"),                       /* bpf */
    CALL("298, 0, 0, -1, -1, 0"),               /* perf_event_open */
    CALL("323, 1"),                             /* userfaultfd */
    CALL("430, \"tmpfs\", 0"),                  /* fsopen */
    CALL("428, -100, \"/\", 1"),                /* open_tree */
    CALL("467, -100, \"/\", 1"),                /* open_tree_attr */
    CALL("500"),                                /* of a later kernel */
    CALL("272, 0x10000000"),                    /* unshare(CLONE_NEWUSER) */
    CALL("56, 0x10000011, 0, 0, 0, 0"),         /* clone(CLONE_NEWUSER) */
    CALL("135, 0x0400000"),                     /* personality(READ_IMPLIES_EXEC) */
    CALL("135, 0x6"),                           /* another system's */
    CALL("41, 38, 5, 0"),                       /* socket(AF_ALG) */
    CALL("41, 17, 3, 0"),                       /* socket(AF_PACKET) */
    CALL("41, 40, 1, 0"),                       /* socket(AF_VSOCK) */
    CALL("304, 0, 0, 0"),                       /* open_by_handle_at */
    CALL("0x40000027"),                         /* getpid by its x32 number */
    "cc -x c -o /tmp/i - <<<'int main(void) { int r; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : "
    "\"a\"(20)); return "
    "r < 0; }' && /tmp/i",    /* getpid by the 32-bit way */
    CALL("101, 16, 1, 0, 0"), /* ptrace(ATTACH, 1) */
};

START_TEST(each_of_these_is_refused)
{
    START(NULL);
    for (size_t i = 0; i < N_ELEMENTS(refused); i++)
        ck_assert_msg(!box_succeeds(&box, refused[i]), "%s", refused[i]);
    ck_assert_str_eq(box_output(&box, "kill -9 1; kill -0 1 && echo alive"), "alive\n");
    box_end(&box);
}
END_TEST

/* What must keep working beside the filter. */
static const char *const allowed[] = {
    "perl -e 'exit(syscall(135, 0xffffffff) < 0)'", /* personality: asking */
    "perl -e 'exit(syscall(135, 0x0040000) < 0)'",  /* ADDR_NO_RANDOMIZE: gdb */
    "perl -e 'exit(syscall(272, 0x400) < 0)'",      /* unshare(CLONE_FILES) */
    "perl -e '$p = fork; exit 0 unless $p; waitpid $p, 0; exit $?'",
    "python3 -c 'import threading; t = threading.Thread(target=print); t.start(); t.join()'",
    "python3 -c 'import multiprocessing as m; p = m.Process(target=print); p.start(); p.join(); m.Lock(); "
    "exit(p.exitcode)'",
    "python3 -c 'import socket; [socket.socket(f) for f in (socket.AF_UNIX, socket.AF_INET, "
    "socket.AF_INET6)]; socket.getaddrinfo(\"localhost\", 80)'",
    "python3 -c 'import ssl; assert ssl.create_default_context().get_ca_certs() or True'",
    "git init -q /tmp/r && cd /tmp/r && git commit -q --allow-empty -m x && "
    "test \"$(git log -1 --format=%ae)\" = workspace@localhost && git config user.email a@b && "
    "git commit -q --allow-empty -m y && test \"$(git log -1 --format=%ae)\" = a@b",
    "python -c 'import sys; assert sys.version_info[0] == 3'",
    "cc -x c -o /tmp/a.out - <<<'int main(void) { return 0; }' && /tmp/a.out",
    "test \"$(getent passwd 1000 | cut -d: -f1)\" = workspace",
    "getent hosts ws-test",
    "test \"$(bash -lc 'echo $PATH')\" = \"$PATH\"",
    "tty < /dev/null; test -c /dev/ptmx && test -d /dev/fd/",
};

START_TEST(each_of_these_works)
{
    START(NULL);
    for (size_t i = 0; i < N_ELEMENTS(allowed); i++) {
        struct box_result result;
        box_run(&box, allowed[i], false, 20000, &result);
        ck_assert_msg(result.status == 0, "%s: %s", allowed[i], buffer_text(&result.err));
        box_result_clear(&result);
    }
    box_end(&box);
}
END_TEST

START_TEST(commands_hold_no_privilege)
{
    START(NULL);
    ck_assert_str_eq(
        box_output(&box,
                   "grep -e ^Cap -e ^NoNewPrivs -e ^Seccomp: -e ^Groups /proc/self/status | tr -d '\\n'"),
        "Groups:\t "
        "CapInh:\t0000000000000000CapPrm:\t0000000000000000CapEff:\t0000000000000000CapBnd:\t0000000000000000"
        "CapAmb:\t0000000000000000NoNewPrivs:\t1Seccomp:\t2");
    ck_assert_str_eq(box_output(&box, "ls /proc/self/fd | tr '\\n' ' '"),
                     "0 1 2 3 "); /* 3: that of ls itself */
    ck_assert_str_eq(box_output(&box, "ulimit -Hc"), "0\n");
    box_end(&box);
}
END_TEST

START_TEST(typing_into_a_terminal_is_refused)
{
    START(NULL);
    struct box_result result;
    box_run(&box, "perl -e 'print ioctl(STDIN, 0x5412, $x = \"a\") ? \"typed\" : \"refused\"'", true, 10000,
            &result);
    ck_assert_msg(strstr(buffer_text(&result.out), "refused") != NULL, "%s", buffer_text(&result.out));
    box_result_clear(&result);
    box_end(&box);
}
END_TEST

/* Seen from outside: the agent holds no file and no directory of the host. */
START_TEST(nothing_is_inherited)
{
    int leak = open("/", O_RDONLY | O_DIRECTORY); /* without close-on-exec */
    dup2(leak, 77);
    START(NULL);
    char path[64], target[256];
    snprintf(path, sizeof path, "/proc/%d/fd", local_child_pid());
    DIR *fds = opendir(path);
    if (!fds) { /* not dumpable, and this is not root */
        box_end(&box);
        return;
    }
    for (struct dirent *entry; (entry = readdir(fds));) {
        ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        ck_assert_msg(target[0] != '/' || !strcmp(target, "/dev/null") || !strncmp(target, "/memfd:", 7),
                      "descriptor %s is %s", entry->d_name, target);
    }
    closedir(fds);
    box_end(&box);
}
END_TEST

static uid_t uid_of(pid_t pid)
{
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    FILE *file = NULL;
    unsigned uid = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    ck_assert_ptr_nonnull(file = fopen(path, "re"));
    for (char line[256]; fgets(line, sizeof line, file);)
        sscanf(line, "Uid: %u", &uid);
    fclose(file);
    (void)status;
    return uid;
}

START_TEST(it_runs_as_its_own_user)
{
    START(NULL);
    ck_assert_uint_eq(uid_of(local_child_pid()), geteuid() ? geteuid() : 20301);
    box_output(&box, "touch /workspace/made");
    struct stat status;
    ck_assert_int_eq(fstatat(box.spec.files_fd, "made", &status, 0), 0);
    ck_assert_uint_eq(status.st_uid, geteuid() ? geteuid() : 20301);
    box_end(&box);
}
END_TEST

START_TEST(folders_of_another_are_refused)
{
    struct error err = ERROR_INIT;
    bool possible = box_prepare(&box, &box_kinds[0]);
    if (!possible || geteuid())
        return;
    box_make_folders(&box, 20301);
    box.spec.uid = 20399;
    ck_assert_int_lt(driver_local.create(&box.config, &box.spec, &box.sandbox, &box.handle, &err), 0);
    ck_assert_ptr_nonnull(strstr(err.message, "chown"));
    error_clear(&err);
    box_end(&box);
}
END_TEST

/* ---- network ---- */

static void block(struct sandbox_spec *spec)
{
    spec->block_network = true;
}

static int listen_somewhere(int *ret_port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert(!bind(fd, (struct sockaddr *)&address, length) && !listen(fd, 8) &&
              !getsockname(fd, (struct sockaddr *)&address, &length));
    *ret_port = ntohs(address.sin_port);
    return fd;
}

START_TEST(a_blocked_network_is_a_loopback)
{
    int port, fd = listen_somewhere(&port);
    char command[128];
    START(block);
    snprintf(command, sizeof command, "exec 3<>/dev/tcp/127.0.0.1/%d", port);
    ck_assert(!box_succeeds(&box, command));
    ck_assert_str_eq(box_output(&box, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo\n");
    ck_assert(box_succeeds(&box, "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); "
                                 "socket.create_connection(s.getsockname())'"));
    close(fd);
    box_end(&box);
}
END_TEST

START_TEST(settings_may_block_every_network)
{
    bool possible = box_prepare(&box, &box_kinds[_i]);
    if (!possible)
        return;
    char none[] = "none";
    box.config.network = none;
    box_make_folders(&box, 20301);
    box_start(&box);
    ck_assert_str_eq(box_output(&box, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo\n");
    box_end(&box);
}
END_TEST

static void name_it(struct sandbox_spec *spec)
{
    spec->hostname = "My project_1/\xc3\xa4";
}

START_TEST(any_name_makes_a_hostname)
{
    START(name_it);
    ck_assert_str_eq(box_output(&box, "hostname"), "My-project-1---\n");
    box_end(&box);
}
END_TEST

START_TEST(otherwise_the_network_is_the_hosts)
{
    int port, fd = listen_somewhere(&port);
    char command[128];
    START(NULL);
    snprintf(command, sizeof command, "exec 3<>/dev/tcp/127.0.0.1/%d", port);
    ck_assert(box_succeeds(&box, command));
    close(fd);
    box_end(&box);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("local_rights");
    TCase *c = tcase_create("what may be done");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, each_of_these_is_refused, 0, BOX_LOCAL);
    tcase_add_loop_test(c, each_of_these_works, 0, BOX_LOCAL);
    tcase_add_loop_test(c, commands_hold_no_privilege, 0, BOX_LOCAL);
    tcase_add_loop_test(c, typing_into_a_terminal_is_refused, 0, BOX_LOCAL);
    tcase_add_loop_test(c, nothing_is_inherited, 0, BOX_LOCAL);
    tcase_add_loop_test(c, it_runs_as_its_own_user, 0, BOX_LOCAL);
    tcase_add_test(c, folders_of_another_are_refused);
    tcase_add_loop_test(c, a_blocked_network_is_a_loopback, 0, BOX_LOCAL);
    tcase_add_loop_test(c, settings_may_block_every_network, 0, BOX_LOCAL);
    tcase_add_loop_test(c, any_name_makes_a_hostname, 0, BOX_LOCAL);
    tcase_add_loop_test(c, otherwise_the_network_is_the_hosts, 0, BOX_LOCAL);
    suite_add_tcase(s, c);
    return unit_run(s);
}
