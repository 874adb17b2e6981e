/* What the local driver promises beyond the contract: isolation and limits, as root (a uid for each
 * workspace) and as www-data. */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "lib/driver/local/bwrap.h"
#include "lib/driver/local/root.h"
#include "lib/driver/local/tools.h"
#include "tests/support/box.h"
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <check.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct box box;
static bool possible;

/* Every test gets a sandbox of its own in its own process; change may bend the spec before. */
static void start(int kind, void (*change)(struct sandbox_spec *spec))
{
    setenv("WORKSPACE_TOKEN", "a-secret-token-of-the-host", 1);
    possible = box_prepare(&box, &box_kinds[kind]);
    if (!possible)
        return;
    box_make_folders(&box, 20301);
    if (change)
        change(&box.spec);
    box_start(&box);
}

#define START(change)                                                                                        \
    start(_i, change);                                                                                       \
    if (!possible)                                                                                           \
    return

/* ---- what is there ---- */

/* Made by the driver, or places of the sandbox's own. */
static const char *const own_patterns[] = {
    "/etc",           "/etc/profile",  "/etc/passwd", "/etc/group",
    "/etc/hosts",     "/etc/mtab",     "/dev",        "/dev/*",
    "/home",          "/proc",         "/run",        "/run/workspace",
    SANDBOX_AGENT,    SANDBOX_RIPGREP, SANDBOX_NAMES, SANDBOX_NAMES "/fd",
    "/etc/gitconfig", "/tmp",          "/workspace",  SANDBOX_HOME
};

static bool is_promised(const char *path)
{
    for (size_t i = 0; i < N_ELEMENTS(own_patterns); i++)
        if (!fnmatch(own_patterns[i], path, 0))
            return true;
    for (const char *const *pattern = root_patterns(); *pattern; pattern++) {
        char below[512];
        snprintf(below, sizeof below, "%s/*", *pattern);
        /* the pattern itself, what lies in a directory that is bound, and directories on the way */
        if (!fnmatch(*pattern, path, FNM_PATHNAME) || !fnmatch(below, path, 0) ||
            !strncmp(*pattern, path, strlen(path)))
            return true;
        char *slash = strrchr(below, '/');
        for (*slash = '\0'; (slash = strrchr(below, '/')) && slash > below;) {
            *slash = '\0';
            if (!fnmatch(below, path, FNM_PATHNAME))
                return true;
        }
    }
    return false;
}

START_TEST(nothing_but_the_written_list_is_there)
{
    START(NULL);
    struct box_result result;
    box_run(&box, "find / \\( -path /proc -o -path /usr \\) -prune -o -mindepth 1 -print", false, 20000,
            &result);
    char *save = NULL;
    int count = 0;
    buffer_text(&result.out);
    for (char *line = strtok_r(result.out.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save), count++)
        ck_assert_msg(is_promised(line), "%s is in the sandbox and not on the list", line);
    ck_assert_int_gt(count, 50);
    box_result_clear(&result);
    ck_assert_str_eq(box_output(&box, "ls -A /home/workspace /workspace /tmp | grep -v : | tr -d '\\n'"), "");
    box_end(&box);
}
END_TEST

/* ---- packages that sandboxes share ---- */

static void put(const char *leaf, const char *text, mode_t mode)
{
    struct error err = ERROR_INIT;
    _cleanup_free_ char *path = config_path(&box.config, leaf, NULL), *folder = xstrdup(path);
    *strrchr(folder, '/') = '\0';
    ck_assert_msg(!io_ensure_directory(folder, 0755, &err), "%s", err.message);
    ck_assert_msg(!io_replace_file(AT_FDCWD, path, text, strlen(text), mode, &err), "%s", err.message);
}

/* As the gateway would have brought them; the real uv only says that it runs. */
static void share(struct sandbox_spec *spec)
{
    (void)spec;
    box.config.shared_packages_mib = 100;
    put("tools/uv", "#!/bin/sh\necho uv $*\n", 0755);
    put("tools/uvx", "#!/bin/sh\necho uvx \"$*\"\n", 0755);
    put("tools/.packages/archive-v0/one/m.py", "true\n", 0644);
    put("tools/.packages/wheels-v8/pypi/m/1.http", "pointer\n", 0644);
    put("tools/.packages/stamp", "first 1 1\n", 0644);
}

START_TEST(shared_packages_are_linked_and_read_only)
{
    START(share);
    ck_assert_str_eq(box_output(&box, "uv a b; uvx 'c  d'; cat ~/.cache/uv/archive-v0/one/m.py"),
                     "uv a b\nuvx c  d\ntrue\n");
    static const char *const attempts[] = {
        "echo x >~/.cache/uv/archive-v0/one/m.py",
        "chmod 777 ~/.cache/uv/archive-v0/one/m.py",
        "echo x >"
        "/run/workspace/tools/.packages/archive-v0/one/m.py",
        "rm -f /run/workspace/tools/.packages/archive-v0/one/m.py",
        "echo x >/run/workspace/tools/.packages/stamp",
        "mv /run/workspace/tools/.packages/archive-v0 /run/workspace/tools/.packages/other",
        "mkdir /run/workspace/tools/.packages/archive-v0/two",
        "mount -o remount,rw /run/workspace/tools/.packages",
        "echo x >/run/workspace/tools/uv",
        "echo x >/run/workspace/bin/uv",
        "truncate -s 0 /run/workspace/tools/.packages/archive-v0/one/m.py",
        "touch -d yesterday /run/workspace/tools/.packages/stamp",
        "python3 -c 'import os; os.setxattr(\"/run/workspace/tools/.packages/stamp\", \"user.x\", b\"y\")'",
    };
    for (size_t i = 0; i < N_ELEMENTS(attempts); i++)
        ck_assert_msg(!box_succeeds(&box, attempts[i]), "%s", attempts[i]);
    /* what it puts in the place of a link is its own */
    ck_assert_str_eq(box_output(&box,
                                "cd ~/.cache/uv; rm archive-v0/one/m.py; echo evil >archive-v0/one/m.py; uv; "
                                "cat archive-v0/one/m.py /run/workspace/tools/.packages/archive-v0/one/m.py"),
                     "uv\nevil\ntrue\n");
    box_end(&box);
}
END_TEST

START_TEST(links_follow_what_is_shared)
{
    static const char list[] =
        "uv; cd ~/.cache/uv; ls archive-v0; cat archive-v0/*/m.py wheels-v8/pypi/m/*.http";
    START(share);
    ck_assert_str_eq(box_output(&box, list), "uv\none\ntrue\npointer\n");
    /* more of the same: own entries stay */
    put("tools/.packages/archive-v0/two/m.py", "second\n", 0644);
    ck_assert_str_eq(box_output(&box, list), "uv\none\ntrue\npointer\n");
    put("tools/.packages/stamp", "first 2 1\n", 0644);
    ck_assert_str_eq(
        box_output(&box, "mkdir ~/.cache/uv/archive-v0/mine; echo mine >~/.cache/uv/archive-v0/mine/m.py"),
        "");
    ck_assert_str_eq(box_output(&box, list), "uv\nmine\none\ntwo\nmine\ntrue\nsecond\npointer\n");
    /* another one: nothing of the old is left that could lead nowhere */
    _cleanup_free_ char *old = config_path(&box.config, "tools/.packages/archive-v0", "one");
    io_remove_tree(AT_FDCWD, old, NULL);
    put("tools/.packages/stamp", "other 1 1\n", 0644);
    ck_assert_str_eq(box_output(&box, list), "uv\ntwo\nsecond\npointer\n");
    /* none any more */
    _cleanup_free_ char *store = config_path(&box.config, "tools", ".packages");
    for (int i = 0; i < 2; i++) {
        io_remove_tree(AT_FDCWD, store, NULL);
        ck_assert_str_eq(box_output(&box, "uv; find ~/.cache/uv -name m.py"), "uv\n");
    }
    box_end(&box);
}
END_TEST

START_TEST(the_host_cannot_be_seen)
{
    START(NULL);
    char command[512];
    snprintf(command, sizeof command, "ls -d %s /root /var /srv /opt /sys /boot /mnt 2>/dev/null; true",
             box.config.state_dir);
    ck_assert_str_eq(box_output(&box, command), "");
    snprintf(
        command, sizeof command,
        "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -e '[a]-secret-token' -e "
        "'[/]%s'; true",
        box.config.state_dir + 1);
    ck_assert_str_eq(box_output(&box, command), "");
    ck_assert_str_eq(
        box_output(&box, "for p in /proc/[0-9]*; do [ \"${p#/proc/}\" -lt 40 ] || echo $p; done"), "");
    ck_assert_str_eq(box_output(&box, "cat /proc/1/cmdline | tr '\\0' ' ' | cut -d' ' -f1"),
                     SANDBOX_AGENT "\n");
    ck_assert_str_eq(box_output(&box, "cat /proc/1/environ /proc/1/mem /proc/1/maps 2>/dev/null; ls "
                                      "/proc/1/fd /proc/1/root/ 2>/dev/null; true"),
                     "");
    ck_assert_str_eq(box_output(&box, "hostname; id -u; id -g; pwd"), "ws-test\n1000\n1000\n/workspace\n");
    ck_assert_str_eq(box_output(&box, "cat /proc/self/cgroup | grep -v -e ':/$' -e 'systemd'; true"), "");
    box_end(&box);
}
END_TEST

START_TEST(other_workspaces_cannot_be_seen)
{
    START(NULL);
    struct box other = box;
    box_make_folders(&other, 20302);
    box_start(&other);
    box_output(&other, "echo hidden > /workspace/hidden; echo hidden > /tmp/hidden; setsid sleep 977 "
                       ">/dev/null 2>&1 & true");
    ck_assert_str_eq(box_output(&box, "ls /workspace /tmp; ps -eo args | grep '[s]leep 977'; true"),
                     "/tmp:\n\n/workspace:\n");
    box_leave(&other);
    box_end(&box);
}
END_TEST

/* ---- what may be written ---- */

static const char *const unwritable[] = {
    "/",     "/dev",      "/etc",     "/usr", "/usr/bin", "/home", "/run/workspace", "/etc/ssl/certs",
    "/proc", "/proc/sys", "/dev/pts",
};

START_TEST(only_four_places_can_be_written)
{
    START(NULL);
    char command[200];
    for (size_t i = 0; i < N_ELEMENTS(unwritable); i++) {
        snprintf(command, sizeof command, "touch %s/x", unwritable[i]);
        ck_assert_msg(!box_succeeds(&box, command), "%s can be written", unwritable[i]);
    }
    ck_assert(!box_succeeds(&box, "echo x >> /etc/passwd"));
    ck_assert(!box_succeeds(&box, "echo x >> " SANDBOX_AGENT));
    ck_assert(!box_succeeds(&box, "echo x >> " SANDBOX_RIPGREP));
    ck_assert(!box_succeeds(&box, "mv " SANDBOX_RIPGREP " /run/workspace/other"));
    ck_assert(!box_succeeds(&box, "mv /run/workspace /run/other"));
    ck_assert(!box_succeeds(&box, "chmod u+w / /dev /etc /etc/hosts || chmod 777 /etc"));
    ck_assert(box_succeeds(&box, "touch /workspace/x ~/x /tmp/x /dev/shm/x /run/x && echo > /dev/null"));
    ck_assert_str_eq(box_output(&box, "stat -c %a /tmp /dev/shm /run | tr '\\n' ' '"), "1777 1777 755 ");
    box_end(&box);
}
END_TEST

START_TEST(temporary_places_are_bounded)
{
    START(NULL);
    int64_t tmp, shm;
    char expected[64];
    bwrap_sizes(&box.spec, &tmp, &shm);
    snprintf(expected, sizeof expected, "%lld %lld 16 ", (long long)tmp, (long long)shm);
    ck_assert_str_eq(
        box_output(&box, "df --output=size -BM /tmp /dev/shm /run | tail -n +2 | tr -d ' M' | tr '\\n' ' '"),
        expected);
    ck_assert(!box_succeeds(&box, "head -c 20000000 /dev/zero > /run/x"));
    box_end(&box);
}
END_TEST

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
    "git init -q /tmp/r && cd /tmp/r && git -c user.name=a -c user.email=b commit -q --allow-empty -m x",
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

static pid_t child_pid(void)
{
    return (pid_t)json_integer_value(json_object_get(json_object_get(box.handle, "child"), "pid"));
}

/* Seen from outside: the agent holds no file and no directory of the host. */
START_TEST(nothing_is_inherited)
{
    int leak = open("/", O_RDONLY | O_DIRECTORY); /* without close-on-exec */
    dup2(leak, 77);
    START(NULL);
    char path[64], target[256];
    snprintf(path, sizeof path, "/proc/%d/fd", child_pid());
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
    ck_assert_uint_eq(uid_of(child_pid()), geteuid() ? geteuid() : 20301);
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
    possible = box_prepare(&box, &box_kinds[0]);
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
    possible = box_prepare(&box, &box_kinds[_i]);
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

/* ---- limits ---- */

/* Sum of what is in memory for a process and all below it, shared pages divided (PSS). */
static int64_t tree_bytes(pid_t pid)
{
    char path[64], text[32768] = "";
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *pss = strstr(text, "\nPss:");
    int64_t sum = pss ? strtoll(pss + 5, NULL, 10) * 1024 : 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    for (char *at = text, *end; strtol(at, &end, 10) > 0; at = end)
        sum += tree_bytes((pid_t)strtol(at, NULL, 10));
    return sum;
}

/* Writes, once it ended, how many ms the tree was above the limit in one stretch at most, and the most MiB it
 * had. */
static pid_t watch_from_outside(pid_t root, int64_t limit, int out)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    int64_t since = 0, longest = 0, most = 0, end = clock_boottime_ms() + 12000;
    for (int64_t now; (now = clock_boottime_ms()) < end && getppid() != 1; usleep(40000)) {
        int64_t sum = tree_bytes(root);
        most = sum > most ? sum : most;
        since = sum <= limit ? 0 : since ? since : now;
        longest = since && now - since > longest ? now - since : longest;
        char text[64];
        int length =
            snprintf(text, sizeof text, "%6lld %6lld\n", (long long)longest, (long long)(most >> 20));
        if (pwrite(out, text, (size_t)length, 0) < 0)
            break;
    }
    _exit(0);
}

START_TEST(a_hundred_hogs_are_ended_at_the_limit)
{
    START(NULL);
    char name[] = "/tmp/wsf-hogs-XXXXXX", text[64] = "";
    int out = mkstemp(name);
    pid_t watcher = watch_from_outside(child_pid(), (int64_t)1024 << 20, out);
    struct box_result result;
    int64_t begun = clock_boottime_ms();
    box_run(&box,
            "for i in $(seq 100); do perl -e '$x = \"a\" x (100 << 20); sleep 4' & done; for p in $(jobs "
            "-p); do wait $p || n=$((n+1)); done; echo "
            "$n",
            false, 40000, &result);
    kill(watcher, SIGKILL);
    ck_assert_int_gt(pread(out, text, sizeof text - 1, 0), 0);
    long longest = strtol(text, NULL, 10), most = strtol(text + 6, NULL, 10);
    fprintf(stderr,
            "%s: 100 hogs of 100 MiB, limit 1024 MiB: ended %ld, above the limit %ld ms at most, %ld MiB at "
            "most, %lld ms in all\n",
            box.kind->name, strtol(buffer_text(&result.out), NULL, 10), longest, most,
            (long long)(clock_boottime_ms() - begun));
    ck_assert_int_lt(longest, 2000);
    ck_assert_int_gt(box.kind->driver->oom_kills(box.sandbox), 0);
    ck_assert_str_eq(box_output(&box, "echo alive"), "alive\n");
    struct sandbox_status status;
    ck_assert_int_eq(driver_local.inspect(&box.config, box.sandbox, box.handle, &status, NULL), 0);
    ck_assert(status.running && status.oom_killed);
    box_result_clear(&result);
    unlink(name);
    box_end(&box);
}
END_TEST

static void small(struct sandbox_spec *spec)
{
    spec->memory_limit_mib = 256;
    spec->cpu_limit = 1;
}

START_TEST(one_hog_is_ended_and_its_neighbour_is_not)
{
    START(small);
    ck_assert_str_eq(box_output(&box, "sleep 100 & perl -e '$x = \"a\" x (400 << 20); sleep 9'; [ $? -ge 128 "
                                      "] && kill -0 $! && echo alive"),
                     "alive\n");
    ck_assert_str_eq(box_output(&box, "perl -e '$x = \"a\" x (60 << 20); print length $x'"), "62914560");
    box_end(&box);
}
END_TEST

START_TEST(one_cpu_is_one_cpu)
{
    START(small);
    int64_t begun = clock_boottime_ms();
    const char *used = box_output(&box, "for i in 1 2; do timeout 1 bash -c 'while :; do :; done' & done; "
                                        "wait; times | tail -1 | cut -d' ' -f1");
    double seconds = strtod(strchr(used, 'm') + 1, NULL), wall = (double)(clock_boottime_ms() - begun) / 1000;
    ck_assert_msg(seconds < wall * 1.25, "used %.2f s of CPU in %.2f s", seconds, wall);
    box_end(&box);
}
END_TEST

/* ---- nothing stays ---- */

START_TEST(its_cgroups_go_with_it)
{
    START(NULL);
    json_auto_t *directories = json_deep_copy(json_object_get(box.handle, "cgroup"));
    size_t i;
    json_t *path;
    json_array_foreach(directories, i, path) {
        ck_assert_int_eq(access(json_string_value(path), F_OK), 0);
    }
    ck_assert(geteuid() || json_array_size(directories) > 0);
    box_end(&box);
    json_array_foreach(directories, i, path) {
        ck_assert_int_ne(access(json_string_value(path), F_OK), 0);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("local");
    TCase *c = tcase_create("local driver");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, nothing_but_the_written_list_is_there, 0, BOX_LOCAL);
    tcase_add_loop_test(c, shared_packages_are_linked_and_read_only, 0, BOX_LOCAL);
    tcase_add_loop_test(c, links_follow_what_is_shared, 0, BOX_LOCAL);
    tcase_add_loop_test(c, the_host_cannot_be_seen, 0, BOX_LOCAL);
    tcase_add_loop_test(c, other_workspaces_cannot_be_seen, 0, BOX_LOCAL);
    tcase_add_loop_test(c, only_four_places_can_be_written, 0, BOX_LOCAL);
    tcase_add_loop_test(c, temporary_places_are_bounded, 0, BOX_LOCAL);
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
    tcase_add_loop_test(c, its_cgroups_go_with_it, 0, BOX_LOCAL);
    suite_add_tcase(s, c);
    TCase *limits = tcase_create("limits");
    tcase_set_timeout(limits, 60);
    tcase_add_loop_test(limits, a_hundred_hogs_are_ended_at_the_limit, 0, BOX_LOCAL);
    tcase_add_loop_test(limits, one_hog_is_ended_and_its_neighbour_is_not, 0, BOX_LOCAL);
    tcase_add_loop_test(limits, one_cpu_is_one_cpu, 0, BOX_LOCAL);
    suite_add_tcase(s, limits);
    return unit_run(s);
}
