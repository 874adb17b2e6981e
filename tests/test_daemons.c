/* Options of every subcommand, daemons kept alive, leftovers found by their command lines. */
#include "fcgi/leftovers.h"
#include "fcgi/options.h"
#include "fcgi/supervise.h"
#include "lib/base/clock.h"
#include "lib/base/memory.h"
#include "tests/support/unit.h"

#include <check.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/* ---- options ---- */

START_TEST(test_options)
{
    char *argv[] = { (char *)"x",     (char *)"--state=/s",
                     (char *)"serve", (char *)"--workers",
                     (char *)"3",     (char *)"--socket",
                     (char *)"p",     (char *)"--set",
                     (char *)"A=b",   (char *)"--config",
                     (char *)"f",     (char *)"--",
                     (char *)"--set", NULL };
    struct options o;
    struct error err = ERROR_INIT;

    ck_assert_int_eq(options_parse(13, argv, &o, &err), 0);
    ck_assert_str_eq(o.state, "/s");
    ck_assert_str_eq(o.config, "f");
    ck_assert_int_eq(o.argc, 5);
    ck_assert_str_eq(o.argv[0], "serve");
    ck_assert_str_eq(o.argv[2], "p");
    ck_assert_str_eq(o.argv[4], "--set");
    ck_assert_str_eq(o.overrides[0], "WORKSPACE_STATE_DIR=/s");
    ck_assert_str_eq(o.overrides[1], "WORKSPACE_WORKERS=3");
    ck_assert_str_eq(o.overrides[2], "A=b");
    ck_assert_ptr_null(o.overrides[3]);
    options_clear(&o);
}
END_TEST

START_TEST(test_option_without_value)
{
    char *argv[] = { (char *)"x", (char *)"serve", (char *)"--state", NULL };
    struct options o;
    struct error err = ERROR_INIT;

    ck_assert_int_eq(options_parse(3, argv, &o, &err), -1);
    ck_assert_int_eq(err.code, ERROR_INVALID);
}
END_TEST

/* ---- leftovers ---- */

static char shell[PATH_MAX];

/* A process whose command line is: SHELL -c SCRIPT --state VALUE */
static pid_t start(const char *script, const char *value)
{
    pid_t pid = fork();

    if (pid == 0) {
        execl(shell, shell, "-c", script, "--state", value, (char *)NULL);
        _exit(127);
    }
    usleep(100000);
    return pid;
}

static int signal_of(pid_t pid)
{
    int status = 0;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

START_TEST(test_leftovers)
{
    pid_t meek = start("read x < /dev/zero; :", "/tmp/a"),
          stubborn = start("trap '' TERM; while :; do :; done", "/tmp/a");
    pid_t other = start("while :; do read -t 1 x < /dev/zero; done", "/tmp/ab");
    struct leftover which = { shell, "-c", "--state", "/tmp/a" };
    int64_t begun = clock_boottime_ms();

    ck_assert_int_eq(leftovers_end(&which, 300), 2);
    ck_assert_int_lt(clock_boottime_ms() - begun, 3000);
    ck_assert_int_eq(signal_of(meek), SIGTERM);
    ck_assert_int_eq(signal_of(stubborn), SIGKILL);
    ck_assert_int_eq(waitpid(other, NULL, WNOHANG), 0);
    which.first = "-d";
    which.value = "/tmp/ab";
    ck_assert_int_eq(leftovers_end(&which, 300), 0);
    kill(other, SIGKILL);
    signal_of(other);
}
END_TEST

/* ---- supervision ---- */

START_TEST(test_daemons_are_started_again_and_ended)
{
    char *argv[] = { shell, (char *)"-c", (char *)"sleep 1000", NULL };
    char *brief[] = { shell, (char *)"-c", (char *)"exit 3", NULL };
    struct daemon daemons[] = { { .name = "lasting", .argv = argv, .stdin_fd = -1 },
                                { .name = "brief", .argv = brief, .stdin_fd = -1 } };

    supervise_begin();
    supervise_start(&daemons[0]);
    supervise_start(&daemons[1]);
    pid_t first = daemons[0].pid;
    kill(first, SIGKILL);
    ck_assert(!supervise_wait(daemons, 2, 700));
    ck_assert_int_ne(daemons[0].pid, first);
    ck_assert_int_gt(daemons[0].pid, 0);
    /* 200, then 400, then 800 ms */
    ck_assert_int_ge(daemons[1].delay_ms, 400);
    ck_assert_int_le(daemons[1].delay_ms, 1600);
    kill(getpid(), SIGTERM);
    ck_assert(supervise_wait(daemons, 2, 5000));
    pid_t last = daemons[0].pid;
    supervise_end(&daemons[0], 1000);
    supervise_end(&daemons[1], 1000);
    ck_assert_int_eq(kill(last, 0), -1);
    ck_assert_int_eq(daemons[0].pid, 0);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("daemons");
    Suite *suite = suite_create("daemons");

    if (realpath("/bin/bash", shell) == NULL)
        return 77;
    tcase_set_timeout(c, 30);
    tcase_add_test(c, test_options);
    tcase_add_test(c, test_option_without_value);
    tcase_add_test(c, test_leftovers);
    tcase_add_test(c, test_daemons_are_started_again_and_ended);
    suite_add_tcase(suite, c);
    return unit_run(suite);
}
