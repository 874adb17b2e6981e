/* Nothing of the host but the written list is readable in a sandbox; nothing outside /workspace,
 * /home/workspace and the tmpfs is writable. */
#include "tests/support/workspace_case.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void run(const char *command, struct exec_log *log)
{
    exec_run_command(the, ws, command, log);
}

/* Runs and compares the output. */
static void expect(const char *command, const char *output)
{
    struct exec_log log;
    run(command, &log);
    ck_assert_msg(strcmp(log.out, output) == 0, "%s\nprinted: %s\nexpected: %s\nstderr: %s", command, log.out,
                  output, log.err);
    exec_log_clear(&log);
}

START_TEST(only_the_written_list_is_there)
{
    expect("ls -A / | grep -v -e '^lib32$' -e '^libx32$'",
           "bin\ndev\netc\nhome\nlib\nlib64\nproc\nrun\nsbin\ntmp\nusr\nworkspace\n");
    expect("ls -A /home /tmp /workspace ~",
           "/home:\nworkspace\n\n/home/workspace:\n\n/tmp:\n\n/workspace:\n");
    struct exec_log log;
    run("for f in /home/* /root /var /srv /opt /sys /boot /mnt /media /etc/shadow /etc/sudoers /etc/ssh "
        "/etc/ssl/private /etc/profile.d "
        "/run/user /run/lock /proc/kcore /proc/1/root /proc/1/environ /proc/1/fd /proc/1/mem; do "
        "[ $f = /home/workspace ] || { cat $f >/dev/null 2>&1 || ls $f/ >/dev/null 2>&1; } && [ $f != "
        "/home/workspace ] && echo \"READ $f\"; done; true",
        &log);
    ck_assert_msg(log.out_length == 0, "%s", log.out);
    exec_log_clear(&log);
}
END_TEST

START_TEST(host_state_token_and_others_are_out_of_sight)
{
    char other[40], command[1024];
    struct exec_log log;
    workspace_create(the, NULL, other);
    exec_run_command(the, other, "echo another-secret > /workspace/secret; sleep 1000 & echo $!", &log);
    exec_log_clear(&log);
    /* The token and the path are given in two halves, so that the command's own text is not what is found.
     * mountinfo names the folder that /workspace is bound from; it is this workspace's own and nothing else
     * of the state directory. */
    snprintf(command, sizeof command,
             "token='%.20s''%s'; state='%.8s''%s'; ls -d $state $state/state 2>/dev/null; env | grep -v -e "
             "^token= | grep -c -e $token; "
             "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' > /tmp/seen; "
             "grep -c -x -e $token -e $state /tmp/seen; "
             "ps -eo args= | grep -c -e '[l]ighttpd' -e '[w]orkspace-fcgi' -e '[s]leep 1000'; "
             "grep -e $state /proc/self/mountinfo | grep -v -c -e /workspaces/%s/",
             instance_token(the), instance_token(the) + 20, instance_state(the), instance_state(the) + 8, ws);
    run(command, &log);
    ck_assert_msg(strcmp(log.out, "0\n0\n0\n0\n") == 0, "%s%s", log.out, log.err);
    exec_log_clear(&log);
    run("find / -xdev -name secret 2>/dev/null; grep -r another-secret /workspace /home /tmp /run "
        "2>/dev/null; true",
        &log);
    ck_assert_msg(log.out_length == 0, "%s", log.out);
    exec_log_clear(&log);
    workspace_terminate(the, other);
}
END_TEST

static bool knows_token(pid_t pid)
{
    static char text[1 << 20];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    ck_assert_uint_gt(length, 0);
    return memmem(text, length, instance_token(the), strlen(instance_token(the))) != NULL;
}

/* Who answers no client has no use for the owner's token. */
START_TEST(workers_alone_have_the_token)
{
    static const char *const names[] = { "serve", "warden", "keep", "lighttpd" };
    for (size_t i = 0; i < 4; i++) {
        pid_t pids[64];
        size_t count = instance_processes(the, names[i], pids, 64);
        ck_assert_uint_ge(count, 1);
        for (size_t k = 0; k < count; k++)
            ck_assert_msg(knows_token(pids[k]) == (i == 0), "%s", names[i]);
    }
}
END_TEST

static const char *const refused[] = {
    "touch /x",
    "touch /usr/x",
    "touch /etc/x",
    "touch /dev/x",
    "echo x > /etc/passwd",
    "mkdir /run/workspace/x",
    "touch /home/x",
    "mknod /tmp/n c 1 3",
    "mount -t tmpfs x /tmp",
    "unshare -Ur true",
    "unshare -m true",
    "chroot / true",
    "mount --bind /usr /tmp",
    "kill -9 1 && ! kill -0 1",
    "ptrace=1; python3 -c 'import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).ptrace(16,1,0,0)==0 else 1)'",
    "python3 -c 'import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).syscall(425,8,0)>=0 else 1)'", /* io_uring_setup
                                                                                                    */
    "python3 -c 'import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).syscall(250,0,-3,1)>=0 else 1)'", /* keyctl
                                                                                                       */
    "python3 -c 'import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).syscall(321,0,0,0)>=0 else 1)'", /* bpf */
    "python3 -c 'import socket; s=socket.socket(socket.AF_UNIX); s.connect(\"\\0/tmp/.X11-unix/X0\")'",
    "su -c true root",
    "setpriv --reuid 0 true",
    "ls /run/workspace/../../root",
    "cat /dev/mem",
    "dmesg",
    "chmod 4755 /usr/bin/true",
};

START_TEST(each_of_these_fails)
{
    struct exec_log log;
    run(refused[_i], &log);
    ck_assert_msg(member_number(log.exit, "returncode") != 0, "%s succeeded: %s", refused[_i], log.out);
    exec_log_clear(&log);
    expect("echo alive", "alive\n");
}
END_TEST

START_TEST(commands_hold_no_privilege)
{
    expect("grep -e ^NoNewPrivs -e ^Seccomp: -e ^CapEff -e ^CapBnd -e ^CapPrm /proc/self/status",
           "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:"
           "\t1\nSeccomp:\t2\n");
    expect("ls /proc/self/fd | wc -l", "4\n"); /* 0 1 2 and that of ls */
    expect("id -u; id -g; id -G; hostname | cut -c1-10", "1000\n1000\n1000\nworkspace-\n");
    expect("find / -xdev \\( -perm -4000 -o -perm -2000 \\) -type f -writable 2>/dev/null | wc -l", "0\n");
    expect("python3 -c 'import "
           "fcntl,termios,os,pty\nm,s=pty.openpty()\nos.setsid()\nfcntl.ioctl(s,termios.TIOCSCTTY,0)\n"
           "try:\n fcntl.ioctl(s,termios.TIOCSTI,b\"x\")\n print(\"pushed\")\nexcept OSError: "
           "print(\"refused\")'; true",
           "refused\n");
}
END_TEST

START_TEST(temporary_places_are_writable_and_bounded)
{
    struct exec_log log;
    run("touch /workspace/a ~/b /tmp/c /dev/shm/d && echo ok; df --output=size -m /tmp /dev/shm /run | tail "
        "-n +2 | sort -n | tail -1",
        &log);
    ck_assert_msg(strncmp(log.out, "ok\n", 3) == 0, "%s %s", log.out, log.err);
    ck_assert_int_le(atol(log.out + 3), 4096);
    exec_log_clear(&log);
}
END_TEST

START_TEST(block_network_leaves_the_loopback_alone)
{
    char closed[40];
    struct exec_log log;
    char command[400];
    workspace_create(the, make_json("{s:b}", "block_network", 1), closed);
    snprintf(command, sizeof command,
             "exec 3<>/dev/tcp/127.0.0.1/%s && echo connected; cat /proc/net/dev | grep -c -e eth -e ens -e "
             "enp; true",
             strrchr(instance_url(the), ':') + 1);
    exec_run_command(the, closed, command, &log);
    ck_assert_msg(strcmp(log.out, "0\n") == 0, "%s", log.out);
    exec_log_clear(&log);
    workspace_terminate(the, closed);
}
END_TEST

START_TEST(limits_hold_and_their_means_are_told)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    json_auto_t *record = api(the, 200, "GET", path, NULL);
    const json_t *limits = json_object_get(record, "limits"),
                 *capabilities = json_object_get(record, "capabilities");
    ck_assert_int_eq(member_number(limits, "memory_limit_mib"), 8192);
    ck_assert_int_eq(member_number(limits, "processes"), 256);
    ck_assert(json_is_object(capabilities));
    struct exec_log log;
    run("for k in $(seq 400); do sleep 3 & done 2>/dev/null; jobs -r | wc -l", &log);
    ck_assert_msg(atoi(log.out) <= 256, "%s processes under a limit of 256", log.out);
    exec_log_clear(&log);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("isolation");
    TCase *c = tcase_create("one workspace for each test");
    tcase_add_checked_fixture(c, ws_make, ws_end);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, only_the_written_list_is_there);
    tcase_add_test(c, host_state_token_and_others_are_out_of_sight);
    tcase_add_test(c, workers_alone_have_the_token);
    tcase_add_loop_test(c, each_of_these_fails, 0, (int)(sizeof refused / sizeof refused[0]));
    tcase_add_test(c, commands_hold_no_privilege);
    tcase_add_test(c, temporary_places_are_writable_and_bounded);
    tcase_add_test(c, block_network_leaves_the_loopback_alone);
    tcase_add_test(c, limits_hold_and_their_means_are_told);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
