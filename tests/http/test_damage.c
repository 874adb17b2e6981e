/* Logs whose files are damaged while the house runs: nobody dies for it, the workspace's files are there, its
 * next command runs, and no other workspace hears of it. */
#include "tests/support/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS 16

static char ws[40], ex[40], other[40], others[40];

static int open_log(const char *id)
{
    char path[300];
    snprintf(path, sizeof path, "%s/events/%s/data.mdb", instance_state(the), id);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s", path);
    return fd;
}

static void damage(int round, unsigned *seed)
{
    struct stat st;
    int fd = open_log(ws);
    ck_assert_int_eq(fstat(fd, &st), 0);
    if (round % 2 == 0)
        ck_assert_int_eq(ftruncate(fd, round == 0 ? 5000 : st.st_size * round / ROUNDS), 0);
    for (int i = 0; round % 2 == 1 && i < 300; i++) {
        char byte = (char)rand_r(seed);
        ck_assert_int_eq(pwrite(fd, &byte, 1, rand_r(seed) % st.st_size), 1);
    }
    close(fd);
}

/* Whatever is answered, it is an answer. */
static void read_log(void)
{
    static const char *const leaves[] = { "/events?cursor=0", "/events?tail=2", "" };
    struct http_options o = { .unchecked = true };
    for (size_t i = 0; i < 4; i++) {
        char path[240];
        snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs%s%s%s", ws, i < 3 ? "/" : "",
                 i < 3 ? ex : "", i < 3 ? leaves[i] : "");
        struct answer a = http_send(the, "GET", path, &o);
        ck_assert_msg(a.status == 200 || a.status == 404 || a.status == 500, "%s: %ld %s", path, a.status,
                      a.body);
        ck_assert_ptr_nonnull(a.json);
        answer_clear(&a);
    }
}

static void expect_works(void)
{
    struct exec_log log;
    exec_run_command(the, ws, "cat /workspace/kept; seq 3", &log);
    ck_assert_str_eq(log.out, "kept\n1\n2\n3\n");
    exec_log_clear(&log);
    exec_follow(the, other, others, 20000, &log);
    ck_assert_int_gt((long)log.out_length, 100000);
    exec_log_clear(&log);
}

static void begin(void)
{
    workspace_create(the, NULL, ws);
    workspace_create(the, NULL, other);
    exec_start_command(the, other, "seq 30000", others);
}

static void end(void)
{
    workspace_terminate(the, ws);
    workspace_terminate(the, other);
}

static void make_log(void)
{
    struct exec_log log;
    exec_start_command(the, ws, "echo kept >/workspace/kept; seq 20000; head -c 100000 /dev/urandom", ex);
    exec_follow(the, ws, ex, 20000, &log);
    exec_log_clear(&log);
}

static void expect_same(const pid_t *before, size_t count)
{
    pid_t now[16];
    ck_assert_uint_eq(instance_processes(the, "serve", now, 16), count);
    ck_assert_mem_eq(now, before, count * sizeof *now);
}

START_TEST(damage_while_stopped)
{
    char stop[128];
    unsigned seed = 11;
    pid_t workers[16];
    size_t count = instance_processes(the, "serve", workers, 16);
    snprintf(stop, sizeof stop, "/api/workspaces/%s/stop", ws);
    for (int round = 0; round < ROUNDS; round++) {
        make_log();
        json_decref(api(the, 200, "POST", stop, NULL));
        read_log(); /* so that workers have it open */
        damage(round, &seed);
        read_log();
        expect_works();
    }
    expect_same(workers, count);
}
END_TEST

/* Its keeper may die or give up over it, or not notice; the commands that ran then are lost. At the latest
 * after a stop it works again. */
START_TEST(damage_while_it_runs)
{
    unsigned seed = (unsigned)now_ms();
    pid_t workers[16];
    size_t count = instance_processes(the, "serve", workers, 16);
    char path[128], stop[128];
    struct http_options o = { .body = "{\"command\": \"seq 1000\"}", .unchecked = true };
    snprintf(path, sizeof path, "/api/workspaces/%s/exec", ws);
    snprintf(stop, sizeof stop, "/api/workspaces/%s/stop", ws);
    printf("seed %u\n", seed);
    for (int round = 0; round < 8; round++) {
        make_log();
        damage(round, &seed);
        read_log();
        for (int k = 0; k < 3; k++) {
            struct answer a = http_send(the, "POST", path, &o);
            ck_assert_ptr_nonnull(a.json);
            answer_clear(&a);
            sleep_ms(100);
        }
        json_decref(api(the, 200, "POST", stop, NULL));
        expect_works();
    }
    expect_same(workers, count);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("damage");
    TCase *c = tcase_create("one workspace for each test");
    tcase_add_checked_fixture(c, begin, end);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, damage_while_stopped);
    tcase_add_test(c, damage_while_it_runs);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
