/* What the local driver promises beyond the contract: memory and CPU are bounded, and nothing stays. */
#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "tests/support/local_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

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
    pid_t watcher = watch_from_outside(local_child_pid(), (int64_t)1024 << 20, out);
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

/* Where memory is used up and its hog is gone already, the kernel takes the next best. */
START_TEST(commands_go_before_what_keeps_the_sandbox)
{
    START(NULL);
    char wanted[64];
    const char *text = box_output(&box, "sleep 0.1; sh -c 'cat /proc/self/oom_score_adj /proc/1/oom_score_adj'");
    bool may_lower = process_set_oom_score(getpid(), -1); /* CAP_SYS_RESOURCE, which not every root has */
    snprintf(wanted, sizeof wanted, "500\n%d\n", may_lower ? -900 : 0);
    ck_assert_str_eq(text, wanted);
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
    Suite *s = suite_create("local_limits");
    TCase *c = tcase_create("limits");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, a_hundred_hogs_are_ended_at_the_limit, 0, BOX_LOCAL);
    tcase_add_loop_test(c, one_hog_is_ended_and_its_neighbour_is_not, 0, BOX_LOCAL);
    tcase_add_loop_test(c, commands_go_before_what_keeps_the_sandbox, 0, BOX_LOCAL);
    tcase_add_loop_test(c, one_cpu_is_one_cpu, 0, BOX_LOCAL);
    tcase_add_loop_test(c, its_cgroups_go_with_it, 0, BOX_LOCAL);
    suite_add_tcase(s, c);
    return unit_run(s);
}
