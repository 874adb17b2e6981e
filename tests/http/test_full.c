/* A full disk: 507 with the reason, existing logs intact, recovery without restart. The state directory lies
 * on a small tmpfs of its own (root only: skipped elsewhere). */
#include "lib/base/buffer.h"
#include "tests/support/instance.h"

#include <check.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
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

START_TEST(a_full_disk_is_told_and_survived)
{
    char folder[] = "/tmp/wsf-full-XXXXXX", ws[40], before[40], during[40], path[200], ballast[64];
    struct exec_log log;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(mount("tmpfs", folder, "tmpfs", 0, "size=200m,mode=0755"), 0);
    const struct passwd *user = getpwnam("www-data");
    ck_assert_int_eq(chown(folder, user->pw_uid, user->pw_gid), 0);
    struct instance_options options = { .state_dir = folder };
    the = instance_start(&options);
    workspace_create(the, NULL, ws);
    exec_start_command(the, ws, "seq 100000", before);
    exec_follow(the, ws, before, 20000, &log);
    size_t length = log.out_length;
    exec_log_clear(&log);
    exec_start_command(the, ws, "read -r x; seq 2000000; echo all written", during);
    snprintf(ballast, sizeof ballast, "%s/ballast", folder);
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
    instance_stop(the);
    ck_assert_int_eq(umount2(folder, MNT_DETACH), 0);
    rmdir(folder);
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
    tcase_add_test(c, a_full_disk_is_told_and_survived);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
