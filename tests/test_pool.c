/* The pool on a real socket: workers die and come back, settings are loaded again, everything ends in order.
 * Its workers answer with their pid, or with the number of workers wanted. */
#include "fcgi/listener.h"
#include "fcgi/pool.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "tests/support/fcgi.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { FIRST_WORKERS = 2, LATER_WORKERS = 3 };

static char folder[64], socket_path[96], starts_path[96], wish_path[96];
static pid_t master;
static int wishes = -1; /* of a worker */

/* ---- a worker ---- */

struct parked {
    struct exchange *exchange;
    struct loop_timer timer;
};
static struct loop *l;
static struct listener *listener;
static const struct config *settings;

static void answer(struct exchange *x)
{
    char text[64];

    snprintf(text, sizeof(text), "%d %d", (int)getpid(), (int)settings->workers);
    x->carrier->reply(x, 200, "text/plain", NULL, text, strlen(text));
}

static void answer_parked(void *user)
{
    struct parked *p = user;

    answer(p->exchange);
    free(p);
}

static void handle(void *user, struct exchange *x)
{
    (void)user;
    if (strcmp(x->request->path, "/wish") == 0)
        ck_assert_int_eq(write(wishes, "w", 1), 1);
    if (strcmp(x->request->path, "/park") != 0) {
        answer(x);
        return;
    }
    struct parked *p = xcalloc(1, sizeof(*p));
    p->exchange = x;
    loop_timer_start(l, &p->timer, clock_boottime_ms() + 400, answer_parked, p);
}

static void stop(void *user)
{
    (void)user;
    loop_stop(l);
}

static void drain(void *user)
{
    (void)user;
    listener_drain(listener, stop, NULL);
}

static void note_start(void)
{
    _cleanup_close_ int fd = open(starts_path, O_WRONLY | O_CREAT | O_APPEND, 0666);

    ck_assert_int_eq(write(fd, "x", 1), 1);
}

static int work(const struct config *config, int listen_fd, int wish_fd)
{
    wishes = wish_fd;
    note_start();
    settings = config;
    l = loop_new();
    listener = listener_new(l, listen_fd, config, handle, NULL);
    loop_signal(l, SIGTERM, drain, NULL);
    loop_run(l);
    listener_free(listener);
    loop_free(l);
    return 0;
}

static int die_at_once(const struct config *config, int listen_fd, int wish_fd)
{
    (void)wish_fd;
    (void)config;
    (void)listen_fd;
    note_start();
    return 3;
}

/* In the master. */
static void wish(const struct config *config)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%d %d", (int)getpid(), (int)config->workers);
    _cleanup_close_ int fd = open(wish_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

    ck_assert_int_eq(write(fd, text, (size_t)length), length);
}

/* ---- fixture ---- */

static struct config *make_config(int workers)
{
    struct config *config = xcalloc(1, sizeof(*config));

    config->workers = workers;
    config->mount = xstrdup("");
    config->user = xstrdup("root");
    config->state_dir = xstrdup(folder);
    return config;
}

static struct config *reload(struct error *err)
{
    (void)err;
    return make_config(LATER_WORKERS);
}

static void begin(pool_worker *worker)
{
    struct error err = ERROR_INIT;

    snprintf(folder, sizeof(folder), "/tmp/test-pool-XXXXXX");
    ck_assert(mkdtemp(folder) != NULL);
    snprintf(socket_path, sizeof(socket_path), "%s/sock", folder);
    snprintf(starts_path, sizeof(starts_path), "%s/starts", folder);
    snprintf(wish_path, sizeof(wish_path), "%s/wish", folder);
    int fd = io_listen_unix(socket_path, 0600, 4096, &err);
    ck_assert_msg(fd >= 0, "%s", err.message);
    master = fork();
    if (master == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(pool_run(make_config(FIRST_WORKERS), fd, worker, reload, wish));
    }
    close(fd);
}

static void end(void)
{
    unlink(socket_path);
    unlink(starts_path);
    unlink(wish_path);
    rmdir(folder);
}

static void end_master(int wanted_ms)
{
    int64_t start = clock_boottime_ms();
    int status;

    kill(master, SIGTERM);
    ck_assert_int_eq(waitpid(master, &status, 0), master);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the master's status is %x", status);
    ck_assert_int_le(clock_boottime_ms() - start, wanted_ms);
    end();
}

/* The worker's pid; *workers = what its settings say. 0 = no answer. */
static pid_t ask(const char *uri, int *workers)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    _cleanup_close_ int fd = fcgi_connect(socket_path);
    struct fcgi_answer a;
    int pid = 0, told = 0;

    fcgi_add_request(&out, 1, false, "GET", uri, "", 0);
    if (fd < 0 || !fcgi_send(fd, out.data, out.length) || !fcgi_read(fd, 1, &a))
        return 0;
    sscanf(a.body, "%d %d", &pid, &told);
    fcgi_answer_free(&a);
    if (workers != NULL)
        *workers = told;
    return pid;
}

static off_t starts(void)
{
    _cleanup_close_ int fd = open(starts_path, O_RDONLY);

    return fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
}

/* ---- tests ---- */

START_TEST(test_killed_workers_come_back)
{
    begin(work);
    for (int i = 0; i < 10; i++) {
        pid_t pid = ask("/", NULL);
        ck_assert_int_gt(pid, 0);
        kill(pid, SIGKILL);
        while (kill(pid, 0) == 0)
            usleep(1000);
    }
    ck_assert_int_gt(ask("/", NULL), 0);
    ck_assert_int_ge(starts(), 10);
    end_master(2000);
}
END_TEST

START_TEST(test_workers_that_die_at_once_are_not_started_in_a_rush)
{
    begin(die_at_once);
    usleep(1500000);
    /* Two workers, delays of 100, 200, 400 ... ms. */
    ck_assert_int_ge(starts(), 4);
    ck_assert_int_le(starts(), 12);
    end_master(2000);
}
END_TEST

START_TEST(test_end_answers_what_waits)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    struct fcgi_answer a;

    begin(work);
    int fd = fcgi_connect(socket_path);
    fcgi_add_request(&out, 1, true, "GET", "/park", "", 0);
    ck_assert(fcgi_send(fd, out.data, out.length));
    usleep(100000);
    kill(master, SIGTERM);
    ck_assert(fcgi_read(fd, 1, &a));
    ck_assert_int_eq(a.status, 200);
    fcgi_answer_free(&a);
    close(fd);
    end_master(2000);
}
END_TEST

static void wait_for_starts(int wanted)
{
    for (int64_t until = clock_boottime_ms() + 3000; clock_boottime_ms() < until && starts() < wanted;)
        usleep(10000);
    ck_assert_int_eq(starts(), wanted);
}

START_TEST(test_reload_loses_no_request)
{
    int workers = 0, asked = 0;

    begin(work);
    ck_assert_int_gt(ask("/", &workers), 0);
    ck_assert_int_eq(workers, FIRST_WORKERS);
    wait_for_starts(FIRST_WORKERS); /* one alone may have answered */
    kill(master, SIGHUP);
    for (int64_t until = clock_boottime_ms() + 3000; clock_boottime_ms() < until && asked < 200;
         asked += workers == LATER_WORKERS)
        ck_assert_int_gt(ask("/", &workers), 0);
    ck_assert_int_eq(asked, 200);
    wait_for_starts(FIRST_WORKERS + LATER_WORKERS); /* the old ones, then the new ones */
    end_master(2000);
}
END_TEST

START_TEST(test_the_master_does_what_workers_wish)
{
    char text[32] = "", wanted[32];

    begin(work);
    snprintf(wanted, sizeof(wanted), "%d %d", (int)master, FIRST_WORKERS);
    for (int round = 0; round < 2; round++) {
        unlink(wish_path);
        for (int i = 0; i < 3; i++)
            ck_assert_int_gt(ask("/wish", NULL), 0);
        for (int tries = 0; tries < 500 && access(wish_path, R_OK) != 0; tries++)
            usleep(10000);
        usleep(20000);
        _cleanup_close_ int fd = open(wish_path, O_RDONLY);
        ck_assert_int_gt(read(fd, text, sizeof(text) - 1), 0);
        ck_assert_str_eq(text, wanted);
    }
    end_master(2000);
}
END_TEST

START_TEST(test_workers_end_with_their_master)
{
    int status;

    begin(work);
    pid_t worker = ask("/", NULL);
    ck_assert_int_gt(worker, 0);
    wait_for_starts(FIRST_WORKERS);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    kill(master, SIGKILL);
    ck_assert_int_eq(waitpid(master, &status, 0), master);
    for (int i = 0; i < FIRST_WORKERS; i++)
        ck_assert_int_gt(waitpid(-1, &status, 0), 0);
    end();
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("pool");
    Suite *suite = suite_create("pool");

    log_init("test", LOG_LEVEL_ERROR, "/dev/null");
    signal(SIGPIPE, SIG_IGN);
    tcase_set_timeout(c, 30);
    tcase_add_test(c, test_killed_workers_come_back);
    tcase_add_test(c, test_workers_that_die_at_once_are_not_started_in_a_rush);
    tcase_add_test(c, test_end_answers_what_waits);
    tcase_add_test(c, test_reload_loses_no_request);
    tcase_add_test(c, test_the_master_does_what_workers_wish);
    tcase_add_test(c, test_workers_end_with_their_master);
    suite_add_tcase(suite, c);
    return unit_run(suite);
}
