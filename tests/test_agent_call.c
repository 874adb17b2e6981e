/* The process of a file call alone, with nobody before it who bounds what it is asked for and ends it when
 * nobody reads any more. */
#include "lib/agent/files/host.h"
#include "lib/agent/files/turn.h"
#include "lib/base/clock.h"
#include "lib/base/memory.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static int turns;
static pid_t pid;
static struct file_pipes pipes;

static void set_up(void)
{
    scratch_make();
    turns = turns_open();
    ck_assert_int_ge(turns, 0);
}

static void tear_down(void)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    memory_close_fd(&pipes.input);
    memory_close_fd(&pipes.output);
    memory_close_fd(&pipes.reply);
    close(turns);
    scratch_remove();
}

static void begin(const char *name, json_t *request)
{
    const struct launch_rules rules = { .workspace = scratch, .home = scratch };
    pid = file_process_start(&rules, turns, file_kind_find(name), request, &pipes);
    json_decref(request);
    ck_assert_int_gt(pid, 0);
}

/* The reply's "ret". New reference. */
static json_t *take_reply(void)
{
    char text[4096];
    size_t length = 0;
    struct pollfd fd = { .fd = pipes.reply, .events = POLLIN };
    for (ssize_t got = 1; got > 0; length += (size_t)got) {
        ck_assert_int_eq(poll(&fd, 1, 20000), 1);
        got = read(pipes.reply, text + length, sizeof text - length);
        ck_assert_int_ge(got, 0);
    }
    ck_assert_uint_gt(length, sizeof(uint32_t));
    json_auto_t *reply = json_loadb(text + sizeof(uint32_t), length - sizeof(uint32_t), 0, NULL);
    json_t *ret = json_object_get(reply, "ret");
    ck_assert_msg(json_is_object(ret), "%.*s", (int)(length - sizeof(uint32_t)), text + sizeof(uint32_t));
    return json_incref(ret);
}

/* The process that watches share has a thread for each. */
static int threads(void)
{
    char path[40];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

START_TEST(a_watch_ends_when_nobody_reads_it)
{
    const struct launch_rules rules = { .workspace = scratch, .home = scratch };
    struct file_host *host = NULL;
    json_auto_t *request = json_pack("{s:s, s:b, s:[s]}", "path", ".", "recursive", true, "types", "create");
    ck_assert_ptr_nonnull(file_host_join(&host, &rules, file_kind_find("watch"), request, &pipes));
    pid = host->pid;
    json_decref(take_reply());
    usleep(300000);
    ck_assert_int_eq(threads(), 2);
    close(STEAL_FD(pipes.output));
    for (int64_t until = clock_boottime_ms() + 20000; threads() > 1; usleep(10000))
        ck_assert(clock_boottime_ms() < until);
    struct file_host *at = host;
    file_host_leave(&at, host);
}
END_TEST

START_TEST(no_number_breaks_a_search)
{
    for (char name = 'a'; name <= 'c'; name++) {
        _cleanup_free_ char *path = xasprintf("%s/%c", scratch, name);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ck_assert_int_ge(fd, 0);
        close(fd);
    }
    begin("search", json_pack("{s:s, s:I, s:I, s:I}", "pattern", "*", "wait_ms", INT64_MAX, "limit",
                              INT64_MAX, "max_bytes", INT64_MAX));
    json_auto_t *ret = take_reply();
    ck_assert_uint_eq(json_array_size(json_object_get(ret, "matches")), 3);
    ck_assert(!json_is_string(json_object_get(ret, "over")));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { a_watch_ends_when_nobody_reads_it, no_number_breaks_a_search };
    return unit_run_tests("agent_call", tests, N_ELEMENTS(tests), set_up, tear_down, 60);
}
