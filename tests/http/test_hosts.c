/* Hosts that are set up in other ways: names resolved by a file behind a link, a disk of its own for
 * workspaces. Each test changes the host in a mount namespace of its own (root only: skipped elsewhere). */
#include "lib/base/buffer.h"
#include "tests/support/inside.h"
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESOLVER "127.0.0.77"
#define ANSWER   "192.0.2.7"

static void leave_the_host(void)
{
    ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
}

static void shell(const char *format, ...)
{
    char command[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    ck_assert_msg(system(command) == 0, "%s", command);
}

/* ---- names ---- */

/* Says to every question for an address that it is ANSWER. */
static void answer_questions(int fd)
{
    static const unsigned char tail[] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4 };
    for (;;) {
        unsigned char packet[1500];
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        ssize_t got = recvfrom(fd, packet, 512, 0, (struct sockaddr *)&from, &size);
        ssize_t at = 12;
        while (at < got && packet[at])
            at += packet[at] + 1;
        if (at + 5 > got)
            continue;
        bool address = packet[at + 2] == 1; /* the type A */
        at += 5;
        memcpy(packet + 2, (unsigned char[]){ 0x85, 0x80, 0, 1, 0, address, 0, 0, 0, 0 }, 10);
        if (address) {
            memcpy(packet + at, tail, sizeof tail);
            inet_pton(AF_INET, ANSWER, packet + at + sizeof tail);
            at += (ssize_t)sizeof tail + 4;
        }
        sendto(fd, packet, (size_t)at, 0, (struct sockaddr *)&from, size);
    }
}

static void start_resolver(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(53) };
    inet_pton(AF_INET, RESOLVER, &address.sin_addr);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    pid_t parent = getpid();
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            answer_questions(fd);
        _exit(0);
    }
    close(fd);
}

/* /etc/resolv.conf becomes a link into /run, as systemd-resolved makes it, or one to nowhere. */
static void link_resolv_conf(const char *folder, bool dangling)
{
    shell("mkdir %s/etc && cp -a /etc/. %s/etc/ && ln -sfn ../run/systemd/resolve/stub-resolv.conf "
          "%s/etc/resolv.conf",
          folder, folder, folder);
    shell("sed -i 's/^hosts:.*/hosts: files dns/' %s/etc/nsswitch.conf", folder);
    shell("mount --bind %s/etc /etc && mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/resolve", folder);
    if (!dangling)
        shell("printf 'nameserver " RESOLVER
              "\\noptions edns0 trust-ad\\n' > /run/systemd/resolve/stub-resolv.conf");
}

START_TEST(names_resolve_as_on_the_host)
{
    char folder[] = "/tmp/wsf-names-XXXXXX", ws[40];
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chmod(folder, 0755), 0);
    leave_the_host();
    link_resolv_conf(folder, _i);
    start_resolver();
    struct instance *own = instance_start(NULL);
    workspace_create(own, NULL, ws);
    if (_i == 0) {
        inside_expect(own, ws, "cat /etc/resolv.conf", "nameserver " RESOLVER "\noptions edns0 trust-ad\n");
        inside_expect(own, ws, "getent ahostsv4 some.name.example | head -1 | cut -d' ' -f1", ANSWER "\n");
    } else { /* none that nobody chose stands in for it */
        inside_expect(
            own, ws,
            "ls /etc/resolv.conf 2>/dev/null; getent ahostsv4 some.name.example; getent hosts localhost "
            "| wc -l",
            "1\n");
    }
    instance_stop(own);
    shell("umount -l /etc /run; rm -rf %s", folder);
}
END_TEST

/* ---- disks of their own for files and logs ---- */

static void mount_disk(const char *folder, const char *name, const char *options)
{
    char path[160];
    const struct passwd *user = getpwnam("www-data");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(mount("tmpfs", path, "tmpfs", 0, options), 0);
    ck_assert_int_eq(chown(path, user->pw_uid, user->pw_gid), 0);
}

START_TEST(a_full_workspace_is_its_own_problem)
{
    char folder[] = "/tmp/wsf-room-XXXXXX", full[40], other[40];
    struct exec_log log;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    leave_the_host();
    const struct passwd *user = getpwnam("www-data");
    ck_assert(!chown(folder, user->pw_uid, user->pw_gid) && !chmod(folder, 0755));
    mount_disk(folder, "workspaces", "size=48m,nr_inodes=4000,mode=0700");
    mount_disk(folder, "events", "size=100m,mode=0700");
    struct instance_options options = { .state_dir = folder };
    struct instance *own = instance_start(&options);
    workspace_create(own, NULL, full);
    workspace_create(own, NULL, other);
    exec_run_command(
        own, full,
        "head -c 200M /dev/zero > big; echo $?; mkdir d; (cd d && mkdir $(seq 20000) 2>/dev/null); "
        "echo $?; seq 300000 | tail -1",
        &log);
    ck_assert_str_eq(log.out, "1\n1\n300000\n"); /* told to the program, not to the gateway */
    ck_assert_ptr_nonnull(strstr(log.err, "No space left on device"));
    exec_log_clear(&log);
    inside_expect(own, other, "echo alive; echo x > file 2>/dev/null || echo full", "alive\nfull\n");
    inside_expect(own, full, "rm -r big d; echo room > file; cat file", "room\n");
    inside_expect(own, full, "head -c 200M /dev/zero > big 2>/dev/null; echo $?", "1\n");
    workspace_terminate(own, full); /* at 100 %, and it makes room */
    inside_expect(own, other,
                  "for k in $(seq 100); do echo x > file && break; sleep 0.1; done 2>/dev/null; cat file",
                  "x\n");
    workspace_terminate(own, other);
    instance_stop(own);
    shell("umount -l %s/workspaces %s/events && rm -rf %s", folder, folder, folder);
}
END_TEST

int main(void)
{
    if (geteuid() != 0) {
        printf("SKIP: another host needs root (mounts)\n");
        return 77;
    }
    Suite *s = suite_create("hosts");
    TCase *c = tcase_create("hosts");
    tcase_set_timeout(c, 90);
    tcase_add_loop_test(c, names_resolve_as_on_the_host, 0, 2);
    tcase_add_test(c, a_full_workspace_is_its_own_problem);
    suite_add_tcase(s, c);
    return unit_run(s);
}
