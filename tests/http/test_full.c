/* A full disk: 507 with the reason, existing logs intact, recovery without restart. The state directory lies
 * on a small tmpfs of its own (root only: skipped elsewhere). */
#include "lib/base/buffer.h"
#include "tests/support/instance.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static struct instance *the;

static void fill(const char *path)
{
    char block[65536] = { 1 };
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    while (write(fd, block, sizeof block) > 0)
        ;
    while (write(fd, block, 512) > 0)
        ;
    close(fd);
}

static char folder[64], ballast[80];

static void begin(void)
{
    const struct passwd *user = getpwnam("www-data");
    snprintf(folder, sizeof folder, "/tmp/wsf-full-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(mount("tmpfs", folder, "tmpfs", 0, "size=200m,mode=0755"), 0);
    ck_assert_int_eq(chown(folder, user->pw_uid, user->pw_gid), 0);
    snprintf(ballast, sizeof ballast, "%s/ballast", folder);
    struct instance_options options = { .state_dir = folder };
    the = instance_start(&options);
}

static void end(void)
{
    instance_stop(the);
    ck_assert_int_eq(umount2(folder, MNT_DETACH), 0);
    rmdir(folder);
}

static long free_mib(void)
{
    struct statvfs fs;
    ck_assert_int_eq(statvfs(folder, &fs), 0);
    return (long)(fs.f_bavail * fs.f_frsize >> 20);
}

static bool has_reserve(void)
{
    char path[100];
    struct stat st;
    snprintf(path, sizeof path, "%s/state/reserve", folder);
    return stat(path, &st) == 0 && st.st_blocks * 512 >= 4 << 20;
}

START_TEST(a_full_disk_is_told_and_survived)
{
    char ws[40], before[40], during[40], path[200];
    struct exec_log log;
    workspace_create(the, NULL, ws);
    exec_start_command(the, ws, "seq 100000", before);
    exec_follow(the, ws, before, 20000, &log);
    size_t length = log.out_length;
    exec_log_clear(&log);
    exec_start_command(the, ws, "read -r x; seq 2000000; echo all written", during);
    fill(ballast);
    exec_send(the, ws, during, "\n", true);
    sleep_ms(1500);
    exec_follow(the, ws, before, 20000, &log); /* what was there is intact, read while the disk is full */
    ck_assert_uint_eq(log.out_length, length);
    exec_log_clear(&log);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs", ws);
    api_refused(the, 507, "full", "POST", path, make_json("{s:s}", "command", "true"));
    api_refused(the, 507, "full", "POST", "/api/workspaces", json_object());
    ck_assert_int_eq(unlink(ballast), 0);
    exec_follow(the, ws, during, 30000, &log); /* goes on by itself, complete */
    ck_assert_ptr_nonnull(strstr(log.out, "2000000\nall written\n"));
    ck_assert_msg(strncmp(log.out, "1\n2\n3\n", 6) == 0, "%.40s", log.out);
    ck_assert_uint_eq(log.out_length, 14888896 + 12);
    exec_log_clear(&log);
    exec_run_command(the, ws, "echo again", &log);
    ck_assert_str_eq(log.out, "again\n");
    exec_log_clear(&log);
    workspace_terminate(the, ws);
}
END_TEST

/* The files of a workspace fill the disk, while one of its commands goes on writing: removing it is the way
 * out. */
START_TEST(the_workspace_that_fills_the_disk_is_removed)
{
    char ws[40], ex[40], path[100];
    workspace_create(the, NULL, ws);
    ck_assert(has_reserve());
    exec_start_command(the, ws, "while :; do cat /dev/zero; sleep 0.1; done >> fat", ex);
    exec_start_command(the, ws, "while :; do echo chatter; done", ex);
    for (long long until = now_ms() + 60000; free_mib() > 0 && now_ms() < until;)
        sleep_ms(20);
    fill(ballast);
    sleep_ms(500);
    ck_assert_int_eq(free_mib(), 0);
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    long long begun = now_ms();
    json_decref(api(the, 200, "DELETE", path, NULL));
    ck_assert_int_lt(now_ms() - begun, 5000);
    json_decref(api(the, 404, "GET", path, NULL));
    for (long long until = now_ms() + 10000; free_mib() < 100 && now_ms() < until;)
        sleep_ms(20);
    ck_assert_int_ge(free_mib(), 100);
    ck_assert(!has_reserve());
    workspace_create(the, NULL, ws); /* there is room: it is kept back again */
    ck_assert(has_reserve());
    workspace_terminate(the, ws);
}
END_TEST

/* Others fill the disk: the workspaces are small, running or not. */
START_TEST(small_workspaces_are_removed_on_a_full_disk)
{
    char running[40], stopped[40], path[100];
    workspace_create(the, NULL, running);
    workspace_create(the, NULL, stopped);
    snprintf(path, sizeof path, "/api/workspaces/%s/stop", stopped);
    json_decref(api(the, 200, "POST", path, json_object()));
    fill(ballast);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/api/workspaces/%s", i == 0 ? stopped : running);
        json_decref(api(the, 200, "DELETE", path, NULL));
        json_decref(api(the, 404, "GET", path, NULL));
    }
    ck_assert_int_eq(unlink(ballast), 0);
}
END_TEST

static void stop(const char *ws, long most_ms)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s/stop", ws);
    long long begun = now_ms();
    json_t *stopped = api(the, 200, "POST", path, json_object());
    ck_assert_int_lt(now_ms() - begun, most_ms);
    ck_assert_str_eq(member_text(stopped, "state"), "stopped");
    json_decref(stopped);
}

/* By themselves, by cancel, with their workspace: as on any other day. */
START_TEST(ends_are_told_on_a_full_disk)
{
    char ws[40], seven[40], noisy[40], silent[40], path[200];
    struct exec_log log;
    workspace_create(the, NULL, ws);
    exec_start_command(the, ws, "read x; echo bye; exit 7", seven);
    exec_start_command(the, ws, "read x; yes", noisy);
    exec_start_command(the, ws, "echo here; sleep 100", silent);
    exec_wait_output(the, ws, silent, "here", 5000);
    fill(ballast);
    exec_send(the, ws, noisy, "\n", false);
    sleep_ms(500);
    exec_send(the, ws, seven, "\n", false);
    exec_follow(the, ws, seven, 1000, &log);
    ck_assert_int_eq(member_number(log.exit, "returncode"), 7);
    ck_assert_str_eq(log.out, "bye\n");
    ck_assert_int_eq(log.dropped, 0);
    exec_log_clear(&log);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/cancel", ws, noisy);
    json_decref(api(the, 200, "POST", path, json_object()));
    exec_follow(the, ws, noisy, 1000, &log);
    ck_assert_str_eq(member_text(log.exit, "state"), "cancelled");
    ck_assert_int_gt(log.dropped, 0);
    ck_assert_ptr_nonnull(strstr(member_text(log.error, "data"), "bytes of output are dropped"));
    exec_log_clear(&log);
    stop(ws, 1000);
    exec_follow(the, ws, silent, 1000, &log);
    ck_assert_str_eq(log.out, "here\n");
    ck_assert_str_eq(member_text(log.error, "data"), "lost: workspace stopped");
    exec_log_clear(&log);
    ck_assert_int_eq(unlink(ballast), 0);
    exec_run_command(the, ws, "echo again", &log);
    ck_assert_str_eq(log.out, "again\n");
    exec_log_clear(&log);
    workspace_terminate(the, ws);
}
END_TEST

int main(void)
{
    if (geteuid() != 0) {
        printf("SKIP: a full disk needs root (a tmpfs of its own)\n");
        return 77;
    }
    Suite *s = suite_create("full");
    TCase *c = tcase_create("full");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, a_full_disk_is_told_and_survived);
    tcase_add_test(c, the_workspace_that_fills_the_disk_is_removed);
    tcase_add_test(c, ends_are_told_on_a_full_disk);
    tcase_add_test(c, small_workspaces_are_removed_on_a_full_disk);
    suite_add_tcase(s, c);
    return unit_run(s);
}
