/* Ends on a full disk (a small tmpfs; root only): a real keeper and a real sandbox, whose commands end by
 * themselves, by cancel, by timeout, with their workspace and with their keeper, while nothing more can be
 * written. */
#include "lib/base/clock.h"
#include "lib/keeper/lost.h"
#include "tests/support/house.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define AT_ONCE_MS 1000
#define MANY       100

static struct house house;
static char ws[ID_SIZE];
static struct line keeper;
static struct talk *talk;
static struct told told;
static char *mount_point, *ballast;

static void begin(void)
{
    mount_point = house_mount_point();
    umount2(mount_point, MNT_DETACH); /* of a test that failed */
    rmdir(mount_point);
    ck_assert_int_eq(mkdir(mount_point, 0711), 0);
    ck_assert_int_eq(mount("none", mount_point, "tmpfs", 0, "size=64m"), 0);
    ballast = xasprintf("%s/ballast", mount_point);
    house_open(&house, mount_point, NULL);
    ws[0] = '\0';
    keeper = house_keep(&house, ws, house_record(ws, NULL));
    ck_assert_ptr_nonnull(json_object_get(keeper.answer, "ret"));
    _cleanup_free_ char *leaf = xasprintf("%s.sock", ws);
    talk = talk_open(&house, leaf);
    ck_assert_ptr_nonnull(talk);
}

static void end(void)
{
    talk_close(talk);
    json_decref(keeper.answer);
    told_clear(&told);
    house_close(&house);
    ck_assert_int_eq(umount2(mount_point, MNT_DETACH), 0);
    rmdir(mount_point);
    free(mount_point);
    free(ballast);
}

static void fill_disk(void)
{
    static char block[65536];
    _cleanup_close_ int fd = open(ballast, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    while (write(fd, block, sizeof(block)) > 0)
        continue;
    while (write(fd, block, 512) > 0)
        continue;
    ck_assert_int_eq(errno, ENOSPC);
}

static void empty_disk(void)
{
    ck_assert_int_eq(unlink(ballast), 0);
}

static void start(const char *command, json_t *extra, char id[static ID_SIZE])
{
    json_t *all = json_pack("{s:b}", "input", 1);
    if (extra != NULL)
        json_object_update(all, extra);
    json_decref(extra);
    talk_start(talk, command, all, id);
    for (int i = 0; house_head(&house, ws, id).state == EXEC_STARTING && i < 500; i++)
        usleep(10000);
}

static void let_go(const char *id)
{
    json_auto_t *go = talk_call(talk, "input", json_pack("{s:s, s:s}", "exec_id", id, "data", "\n"));
    ck_assert_int_eq(talk_error(go), 0);
}

/* All that it wrote is there or counted, and where something is missing, that is said. */
static void expect_counted(void)
{
    const struct exec_head *head = &told.head;
    ck_assert(!told.gap);
    ck_assert_uint_eq(told.exits, 1);
    ck_assert_uint_eq(head->stream_bytes[0] - head->stream_dropped[0], told.out.length);
    ck_assert_int_eq(head->dropped_bytes > 0, head->dropped_events > 0);
    ck_assert_int_eq(head->dropped_bytes > 0, strstr(buffer_text(&told.errors), "ENOSPC") != NULL);
}

START_TEST(a_command_that_ends_is_told_at_once)
{
    char id[ID_SIZE];
    begin();
    start("read x; echo bye; echo bad >&2; exit 7", NULL, id);
    fill_disk();
    let_go(id);
    ck_assert(told_wait(&house, ws, id, &told, AT_ONCE_MS));
    ck_assert_int_eq(told.head.returncode, 7);
    ck_assert_int_eq(told.head.state, EXEC_FINISHED);
    ck_assert_str_eq(buffer_text(&told.out), "bye\n");
    ck_assert_str_eq(buffer_text(&told.err), "bad\n");
    ck_assert_uint_eq(told.head.dropped_bytes, 0);
    expect_counted();
    empty_disk();
    start("echo again", NULL, id);
    ck_assert(told_wait(&house, ws, id, &told, 10000));
    ck_assert_str_eq(buffer_text(&told.out), "again\n");
    end();
}
END_TEST

/* The one that ends does not wait for the one that writes. */
START_TEST(a_silent_end_passes_held_output)
{
    char noisy[ID_SIZE], silent[ID_SIZE];
    begin();
    start("read x; seq 1 1000000", NULL, noisy);
    start("read x; exit 3", NULL, silent);
    fill_disk();
    let_go(noisy);
    usleep(700000);
    ck_assert_uint_eq(house_head(&house, ws, noisy).exit_seq, 0);
    let_go(silent);
    ck_assert(told_wait(&house, ws, silent, &told, AT_ONCE_MS));
    ck_assert_int_eq(told.head.returncode, 3);
    empty_disk();
    ck_assert(told_wait(&house, ws, noisy, &told, 20000));
    ck_assert_int_eq(told.head.returncode, 0);
    ck_assert_uint_eq(told.out.length, 6888896);
    ck_assert_uint_eq(told.head.dropped_bytes, 0);
    expect_counted();
    end();
}
END_TEST

/* It has ended by itself: its output is worth the wait. */
START_TEST(a_noisy_end_is_complete_when_there_is_room)
{
    char id[ID_SIZE];
    begin();
    start("read x; seq 1 60000; exit 3", NULL, id);
    fill_disk();
    let_go(id);
    usleep(1000000);
    ck_assert_uint_eq(house_head(&house, ws, id).exit_seq, 0);
    empty_disk();
    ck_assert(told_wait(&house, ws, id, &told, AT_ONCE_MS));
    ck_assert_int_eq(told.head.returncode, 3);
    ck_assert_uint_eq(told.out.length, 348894);
    ck_assert_uint_eq(told.head.dropped_bytes, 0);
    expect_counted();
    end();
}
END_TEST

START_TEST(many_end_together)
{
    static char ids[MANY][ID_SIZE];
    begin();
    for (int i = 0; i < MANY; i++) {
        _cleanup_free_ char *command = xasprintf("read x; seq 1 1000; echo %d; exit %d", i, i);
        start(command, NULL, ids[i]);
    }
    fill_disk();
    for (int i = 0; i < MANY; i++)
        let_go(ids[i]);
    int64_t begun = clock_boottime_ms();
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < MANY; i++) {
            _cleanup_free_ char *last = xasprintf("1000\n%d\n", i);
            int64_t left = begun + 10000 - clock_boottime_ms(); /* the commands themselves need a while */
            ck_assert_msg(told_wait(&house, ws, ids[i], &told, left > 1 ? (int)left : 1), "%d of %d", i,
                          MANY);
            ck_assert_int_eq(told.head.returncode, i);
            ck_assert_uint_eq(told.head.dropped_bytes, 0);
            ck_assert_str_eq(buffer_text(&told.out) + told.out.length - strlen(last), last);
            expect_counted();
        }
        if (turn == 0)
            empty_disk();
        begun = clock_boottime_ms();
    }
    end();
}
END_TEST

static void expect_cut(const char *id, int wait_ms)
{
    ck_assert(told_wait(&house, ws, id, &told, wait_ms));
    ck_assert_uint_gt(told.head.dropped_bytes, 0);
    ck_assert_uint_gt(told.out.length, 0);
    expect_counted();
}

/* What is made to end does not wait for room. */
START_TEST(a_noisy_command_is_cancelled)
{
    char id[ID_SIZE];
    begin();
    start("read x; yes", NULL, id);
    fill_disk();
    let_go(id);
    usleep(500000);
    json_auto_t *done = talk_call(talk, "signal", json_pack("{s:s, s:s}", "exec_id", id, "signal", "TERM"));
    ck_assert_int_eq(talk_error(done), 0);
    expect_cut(id, AT_ONCE_MS);
    ck_assert_int_eq(told.head.state, EXEC_CANCELLED);
    ck_assert_int_eq(told.head.returncode, -SIGTERM);
    end();
}
END_TEST

START_TEST(a_noisy_command_times_out)
{
    char id[ID_SIZE];
    begin();
    start("read x; yes", json_pack("{s:i}", "timeout_seconds", 1), id);
    fill_disk();
    let_go(id);
    expect_cut(id, 1000 + AT_ONCE_MS);
    ck_assert(told.head.timed_out);
    ck_assert_int_eq(told.head.returncode, -SIGTERM);
    end();
}
END_TEST

/* Output that is dropped is missing at one place only, also where the command goes on. */
START_TEST(a_command_outlives_its_signal_and_the_full_disk)
{
    char id[ID_SIZE];
    begin();
    start("trap '' TERM; read x; seq 1 1000000; read y; echo end", NULL, id);
    fill_disk();
    let_go(id);
    usleep(300000);
    json_auto_t *done = talk_call(talk, "signal", json_pack("{s:s, s:s}", "exec_id", id, "signal", "TERM"));
    ck_assert_int_eq(talk_error(done), 0);
    usleep(700000);
    empty_disk();
    usleep(600000);
    let_go(id);
    expect_cut(id, 5000);
    ck_assert_int_eq(told.head.returncode, 0);
    ck_assert_uint_eq(told.head.stream_bytes[0], 6888896 + 4);
    ck_assert_str_eq(buffer_text(&told.out) + told.out.length - 4, "end\n");
    ck_assert_ptr_eq(strstr(strstr(buffer_text(&told.errors), "ENOSPC") + 1, "ENOSPC"), NULL);
    end();
}
END_TEST

START_TEST(the_workspace_is_stopped)
{
    char silent[ID_SIZE], noisy[ID_SIZE];
    begin();
    start("sleep 100", NULL, silent);
    start("read x; yes", NULL, noisy);
    fill_disk();
    let_go(noisy);
    usleep(500000);
    int64_t begun = clock_boottime_ms();
    json_auto_t *stopped = talk_call(talk, "stop", NULL);
    ck_assert_int_lt(clock_boottime_ms() - begun, AT_ONCE_MS);
    json_t *record = json_object_get(stopped, "ret");
    ck_assert_str_eq(json_string_value(json_object_get(record, "state")), "stopped");
    ck_assert_int_eq(house_wait(keeper.pid, 3000), 0);
    ck_assert(told_wait(&house, ws, silent, &told, 1));
    ck_assert_str_eq(told.head.reason, "lost: workspace stopped");
    ck_assert_uint_eq(told.head.dropped_bytes, 0);
    expect_counted();
    expect_cut(noisy, 1);
    ck_assert_str_eq(told.head.reason, "lost: workspace stopped");
    end();
}
END_TEST

/* None is started whose end would have no room. */
START_TEST(starts_are_refused_before_ends_lack_room)
{
    char ids[MANY][ID_SIZE], held[ID_SIZE];
    int started = 0;
    begin();
    start("read x; exit 5", NULL, held);
    fill_disk();
    for (; started < MANY; started++) {
        json_auto_t *answer = talk_call(talk, "start", json_pack("{s:s}", "command", "exit 9"));
        if (talk_error(answer) == ERROR_FULL)
            break;
        const char *id = json_string_value(json_object_get(json_object_get(answer, "ret"), "exec_id"));
        ck_assert_ptr_nonnull(id);
        memcpy(ids[started], id, ID_SIZE);
        usleep(20000);
    }
    ck_assert_int_lt(started, MANY);
    let_go(held);
    ck_assert(told_wait(&house, ws, held, &told, AT_ONCE_MS));
    ck_assert_int_eq(told.head.returncode, 5);
    for (int i = 0; i < started; i++) {
        ck_assert(told_wait(&house, ws, ids[i], &told, AT_ONCE_MS));
        ck_assert_int_eq(told.head.returncode, 9);
        expect_counted();
    }
    empty_disk();
    start("exit 4", NULL, held);
    ck_assert(told_wait(&house, ws, held, &told, 10000));
    ck_assert_int_eq(told.head.returncode, 4);
    end();
}
END_TEST

/* What is kept outlives the keeper. */
START_TEST(the_keeper_dies)
{
    static char ids[MANY][ID_SIZE];
    begin();
    house_start_warden(&house);
    for (int i = 0; i < MANY; i++)
        start("sleep 100", NULL, ids[i]);
    fill_disk();
    kill(keeper.pid, SIGKILL);
    ck_assert_int_eq(house_wait(keeper.pid, 3000), 128 + SIGKILL);
    for (int i = 0; i < MANY; i++) {
        ck_assert(told_wait(&house, ws, ids[i], &told, 5000));
        ck_assert_str_eq(told.head.reason, "lost: " LOST_KEEPER);
        expect_counted();
    }
    end();
}
END_TEST

int main(int argc, char **argv)
{
    int status = house_main(argc, argv);
    if (status >= 0)
        return status;
    if (geteuid() != 0) {
        printf("SKIP: a full disk needs root (a tmpfs of its own)\n");
        return 77;
    }
    setenv("HOUSE_QUIET", "1", 0);
    const TTest *tests[] = { a_command_that_ends_is_told_at_once,
                             a_silent_end_passes_held_output,
                             a_noisy_end_is_complete_when_there_is_room,
                             many_end_together,
                             a_noisy_command_is_cancelled,
                             a_noisy_command_times_out,
                             a_command_outlives_its_signal_and_the_full_disk,
                             the_workspace_is_stopped,
                             starts_are_refused_before_ends_lack_room,
                             the_keeper_dies };
    return unit_run_tests("keeper_full", tests, N_ELEMENTS(tests), NULL, NULL, 60);
}
