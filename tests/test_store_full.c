/* The state store on a full disk (a small tmpfs; root only): what makes room is committed all the same, by
 * means of the room kept back; nothing else is. */
#include "lib/base/ids.h"
#include "lib/store/reserve.h"
#include "lib/store/state.h"
#include "lib/store/transaction.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { WORKSPACES = 40 };

static struct error err;
static struct state *s;
static char ids[WORKSPACES][ID_SIZE];

static void setup(void)
{
    scratch_make();
    ck_assert_int_eq(mount("tmpfs", scratch, "tmpfs", 0, "size=40m,mode=0700"), 0);
    s = state_open(scratch, &err);
    ck_assert_msg(s != NULL, "%s", err.message);
}

static void teardown(void)
{
    state_close(s);
    error_clear(&err);
    umount2(scratch, MNT_DETACH);
    scratch_remove();
}

static char *path_of(const char *name)
{
    return xasprintf("%s/%s", scratch, name);
}

static bool has_reserve(void)
{
    _cleanup_free_ char *path = path_of("state/reserve");
    struct stat st;
    return stat(path, &st) == 0 && st.st_blocks * 512 >= RESERVE_BYTES;
}

static void fill_disk(void)
{
    _cleanup_free_ char *path = path_of("ballast");
    char block[4096] = { 1 };
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    while (write(fd, block, sizeof block) > 0)
        continue;
    ck_assert_int_eq(errno, ENOSPC);
}

static void remove_ballast(void)
{
    _cleanup_free_ char *path = path_of("ballast");
    ck_assert_int_eq(unlink(path), 0);
}

static int create(char id[static ID_SIZE])
{
    id_make(ID_WORKSPACE, id);
    json_auto_t *record =
        json_pack("{s:i, s:s, s:s, s:s}", "v", 1, "workspace_id", id, "owner", "o", "state", "running");
    return state_create_workspace(s, record, NULL, 0, 0, 0, NULL, &err);
}

static void create_all(void)
{
    for (int i = 0; i < WORKSPACES; i++)
        ck_assert_int_eq(create(ids[i]), 0);
}

static int rest(struct transaction *t, void *user, struct error *e)
{
    (void)t, (void)e;
    ck_assert_int_eq(write(*(int *)user, "x", 1), 1);
    pause();
    return 0;
}

/* A reader that stays keeps old pages from being used again: each commit needs new ones. */
static pid_t start_reader(void)
{
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct state *own = state_open(scratch, NULL);
        transaction_read(own, rest, &ends[1], NULL);
        _exit(1);
    }
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

START_TEST(removals_are_committed_on_a_full_disk)
{
    char id[ID_SIZE];
    size_t made = 0;
    create_all();
    ck_assert(has_reserve());
    pid_t reader = start_reader();
    fill_disk();
    while (made < 1000 && create(id) == 0) /* into pages that were free before the reader came */
        made++;
    ck_assert_int_eq(err.code, ERROR_FULL);
    ck_assert(has_reserve());
    for (int i = 0; i < WORKSPACES; i++)
        ck_assert_msg(state_remove_workspace(s, ids[i], true, &err) == 0, "%d: %s", i, err.message);
    ck_assert(!has_reserve());
    json_auto_t *left = NULL;
    ck_assert_int_eq(state_list_workspaces(s, NULL, NULL, 2000, &left, &err), 0);
    ck_assert_uint_eq(json_array_size(left), made);
    kill(reader, SIGKILL);
    ck_assert_int_eq(waitpid(reader, NULL, 0), reader);
}
END_TEST

START_TEST(the_room_is_kept_back_again)
{
    _cleanup_free_ char *directory = path_of("state");
    fill_disk();
    ck_assert(reserve_release(directory));
    ck_assert(!reserve_release(directory));
    fill_disk();
    reserve_keep(directory); /* none is taken from a disk that is nearly full */
    ck_assert(!has_reserve());
    remove_ballast();
    reserve_keep(directory);
    ck_assert(has_reserve());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store_full");
    TCase *cases = tcase_create("full");
    if (geteuid() != 0) {
        printf("SKIP: a full disk needs root (a tmpfs of its own)\n");
        return 77;
    }
    tcase_add_test(cases, removals_are_committed_on_a_full_disk);
    tcase_add_test(cases, the_room_is_kept_back_again);
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_set_timeout(cases, 60);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
