/* The soak test: workspaces are made, used, polled and removed at full speed for SOAK_SECONDS (an hour);
 * memory, descriptors, files and latencies are sampled all the while, and whatever grows fails the test. The
 * first quarter is for caches to fill. Others may use the machine too, now more, now less: latencies are
 * judged against starts of a plain shell in the same time, the size of the log against the commands that it
 * had to hold at most so far. */
#include "tests/chaos/gauge.h"
#include "tests/chaos/slope.h"

#include "lib/base/clock.h"
#include "lib/base/memory.h"
#include "tests/support/must.h"
#include "tests/support/proc.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHURNERS      2
#define USERS         2
#define POLLERS       4
#define SAMPLES       90
#define LOG_TTL       15
#define LOG_TTL_TEXT  "15"
#define LATENCIES_MAX 20000

static struct instance *the;
static char steady[40],
    ticking[40]; /* a workspace that stays, and a command in it that prints all the time */
static _Atomic bool over;
static _Atomic unsigned long made, ran, used, polled;

/* ---- latencies ---- */

enum latency { LATENCY_CREATE, LATENCY_RUN, LATENCY_STATUS, LATENCY_REMOVE, LATENCY_SHELL, LATENCIES };
static struct {
    pthread_mutex_t lock;
    size_t count[LATENCIES];
    double ms[LATENCIES][LATENCIES_MAX];
} latencies = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note(enum latency which, double ms)
{
    pthread_mutex_lock(&latencies.lock);
    if (latencies.count[which] < LATENCIES_MAX)
        latencies.ms[which][latencies.count[which]++] = ms;
    pthread_mutex_unlock(&latencies.lock);
}

/* The median since the last call; NAN = nothing was measured. */
static double take_median(enum latency which)
{
    pthread_mutex_lock(&latencies.lock);
    size_t count = latencies.count[which];
    double ms = count ? median(latencies.ms[which], count) : (double)NAN;
    latencies.count[which] = 0;
    pthread_mutex_unlock(&latencies.lock);
    return ms;
}

/* ---- who uses it ---- */

static json_t *request(const char *method, const char *path, const char *body, enum latency which)
{
    struct http_options o = { .body = body };
    struct answer a = http_send(the, method, path, &o);
    must(a.status == 200, "%s %s: %ld %.300s", method, path, a.status, a.body ? a.body : "");
    if (which < LATENCIES)
        note(which, a.ms);
    json_t *ret = json_incref(a.json);
    answer_clear(&a);
    return ret;
}

static void run_command(const char *ws)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s/exec", ws);
    json_auto_t *done = request("POST", path, "{\"command\": \"seq 1 200\"}", LATENCY_RUN);
    must(strcmp(member_text(done, "state"), "finished") == 0 && strlen(member_text(done, "stdout")) == 692,
         "seq 1 200 was %s: %s", member_text(done, "state"), member_text(done, "stdout"));
    atomic_fetch_add(&ran, 1);
}

static void *churn(void *unused)
{
    (void)unused;
    while (!atomic_load(&over)) {
        char path[100];
        json_auto_t *created = request("POST", "/api/workspaces", "{}", LATENCY_CREATE);
        const char *ws = member_text(created, "workspace_id");
        run_command(ws);
        run_command(ws);
        snprintf(path, sizeof path, "/api/workspaces/%s", ws);
        json_decref(request("DELETE", path, NULL, LATENCY_REMOVE));
        atomic_fetch_add(&made, 1);
    }
    http_thread_end();
    return NULL;
}

static void *use(void *unused)
{
    (void)unused;
    while (!atomic_load(&over)) {
        run_command(steady);
        atomic_fetch_add(&used, 1);
        sleep_ms(5);
    }
    http_thread_end();
    return NULL;
}

static void *poll_events(void *unused)
{
    long cursor = 0;
    (void)unused;
    while (!atomic_load(&over)) {
        char path[240];
        snprintf(path, sizeof path,
                 "/api/workspaces/%s/realtime-execs/%s/events?cursor=%ld&wait_seconds=5&max_events=500",
                 steady, ticking, cursor);
        json_auto_t *page = request("GET", path, NULL, LATENCIES);
        const char *state = member_text(page, "state");
        must(strcmp(state, "running") == 0 || cursor == 0, "the command that ticks is %s", state);
        cursor = (long)member_number(page, "next_cursor");
        atomic_fetch_add(&polled, 1);
    }
    http_thread_end();
    return NULL;
}

/* The most commands so far whose logs the workspace that stays had to keep at one time. */
static _Atomic unsigned long most_kept;

static void note_kept(long long second)
{
    static unsigned long until[LOG_TTL + 1];
    static long long last = -1;
    unsigned long now = atomic_load(&used);
    if (second == last)
        return;
    last = second;
    unsigned long kept = now - until[second % (LOG_TTL + 1)];
    until[second % (LOG_TTL + 1)] = now;
    if (kept > atomic_load(&most_kept))
        atomic_store(&most_kept, kept);
}

static void *probe(void *unused)
{
    (void)unused;
    while (!atomic_load(&over)) {
        char path[160];
        snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", steady, ticking);
        json_decref(request("GET", path, NULL, LATENCY_STATUS));
        note_kept(now_ms() / 1000);
        sleep_ms(20);
    }
    http_thread_end();
    return NULL;
}

/* What the machine takes for a command without us. */
static void *start_shells(void *unused)
{
    static char *const argv[] = { "bash", "-c", "seq 1 200", NULL };
    posix_spawn_file_actions_t quiet;
    (void)unused;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    while (!atomic_load(&over)) {
        long long begun = clock_boottime_us();
        pid_t pid;
        int status;
        must_hold(posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ) == 0);
        must_hold(waitpid(pid, &status, 0) == pid && status == 0);
        note(LATENCY_SHELL, (double)(clock_boottime_us() - begun) / 1000);
        sleep_ms(20);
    }
    posix_spawn_file_actions_destroy(&quiet);
    return NULL;
}

/* ---- samples ---- */

enum measure {
    WORKER_PSS,
    WARDEN_PSS,
    KEEPER_PSS,
    AGENT_PSS,
    FRONT_PSS,
    WORKER_FDS,
    WARDEN_FDS,
    KEEPER_FDS,
    WORKER_DELETED,
    STATE_SIZE,
    EVENTS_SIZE,
    RUN_FILES,
    TRASH_FILES,
    CREATE_TIME,
    RUN_TIME,
    STATUS_TIME,
    REMOVE_TIME,
    MEASURES
};
static struct slope measures[MEASURES] = {
    [WORKER_PSS] = { "a worker's memory", "KiB", 1024, 0.05 },
    [WARDEN_PSS] = { "the warden's memory", "KiB", 384, 0.05 },
    [KEEPER_PSS] = { "the keeper's own memory", "KiB", 512, 0.05 },
    [AGENT_PSS] = { "the agent's memory", "KiB", 256, 0.05 },
    [FRONT_PSS] = { "lighttpd's memory", "KiB", 1024, 0.05 },
    [WORKER_FDS] = { "a worker's descriptors", "", 16, 0.03 },
    [WARDEN_FDS] = { "the warden's descriptors", "", 6, 0.03 },
    [KEEPER_FDS] = { "the keeper's descriptors", "", 6, 0.03 },
    [WORKER_DELETED] = { "removed files that a worker holds", "KiB", 4096, 0.05 },
    [STATE_SIZE] = { "the file of the state", "KiB", 256, 0.1 },
    [EVENTS_SIZE] = { "the file of the logs, a command", "KiB", 0.2, 0.1 },
    [RUN_FILES] = { "files in run/", "", 6, 0.1 },
    [TRASH_FILES] = { "files in workspaces/.trash/", "", 20, 0.2 },
    /* in starts of a shell, each a few milliseconds */
    [CREATE_TIME] = { "creating a workspace", "x", 1, 0.25 },
    [RUN_TIME] = { "running a command", "x", 0.5, 0.25 },
    [STATUS_TIME] = { "asking for a status", "x", 0.2, 0.25 },
    [REMOVE_TIME] = { "removing a workspace", "x", 0.5, 0.25 },
};

/* PID 1 of a keeper's sandbox: below bubblewrap. */
static double agent_pss(pid_t keeper)
{
    return proc_pss_kib(proc_first_child(proc_first_child(keeper)));
}

static void sample(double at)
{
    const char *state = instance_state(the);
    double shell = take_median(LATENCY_SHELL);
    double now[MEASURES] = {
        [WORKER_PSS] = gauge_mean(the, "serve", "", proc_pss_kib),
        [WARDEN_PSS] = gauge_mean(the, "warden", "", proc_pss_kib),
        [KEEPER_PSS] = gauge_mean(the, "keep", steady, proc_anonymous_kib),
        [AGENT_PSS] = gauge_mean(the, "keep", steady, agent_pss),
        [FRONT_PSS] = gauge_mean(the, "lighttpd", "", proc_pss_kib),
        [WORKER_FDS] = gauge_mean(the, "serve", "", gauge_descriptors),
        [WARDEN_FDS] = gauge_mean(the, "warden", "", gauge_descriptors),
        [KEEPER_FDS] = gauge_mean(the, "keep", steady, gauge_descriptors),
        [WORKER_DELETED] = gauge_mean(the, "serve", "", gauge_deleted_kib),
        [STATE_SIZE] = gauge_file_kib("%s/state/data.mdb", state),
        [EVENTS_SIZE] =
            gauge_file_kib("%s/events/%s/data.mdb", state, steady) / (double)atomic_load(&most_kept),
        [RUN_FILES] = gauge_entries("%s/run", state),
        [TRASH_FILES] = gauge_entries("%s/workspaces/.trash", state),
        [CREATE_TIME] = take_median(LATENCY_CREATE) / shell,
        [RUN_TIME] = take_median(LATENCY_RUN) / shell,
        [STATUS_TIME] = take_median(LATENCY_STATUS) / shell,
        [REMOVE_TIME] = take_median(LATENCY_REMOVE) / shell,
    };
    for (int m = 0; m < MEASURES; m++)
        if (!isnan(now[m]))
            slope_add(&measures[m], at, now[m]);
}

/* ---- main ---- */

static void begin_work(pthread_t *threads, size_t *count)
{
    static const struct {
        void *(*run)(void *);
        int threads;
    } crowd[] = {
        { churn, CHURNERS }, { use, USERS }, { poll_events, POLLERS }, { probe, 1 }, { start_shells, 1 }
    };
    workspace_create(the, make_json("{s:i, s:n}", "timeout_seconds", 86400, "idle_timeout_seconds"), steady);
    exec_start_command(the, steady, "while sleep 0.2; do date +%s%N; done", ticking);
    for (size_t c = 0; c < N_ELEMENTS(crowd); c++)
        for (int k = 0; k < crowd[c].threads; k++)
            must_hold(pthread_create(&threads[(*count)++], NULL, crowd[c].run, NULL) == 0);
}

static int judge(double seconds)
{
    int grows = 0;
    printf("%lu workspaces, %lu commands, %lu pages in %.0f s\n", made, ran, polled, seconds);
    for (int m = 0; m < MEASURES; m++)
        grows += !slope_judge(&measures[m], seconds / 4);
    printf(grows ? "%d of %d measures grow\n" : "all is flat\n", grows, MEASURES);
    return grows ? 1 : 0;
}

int main(void)
{
    const char *given = getenv("SOAK_SECONDS");
    double seconds = given && atof(given) > 0 ? atof(given) : 3600;
    static const char *const environment[] = { "WORKSPACE_EVENT_LOG_TTL=" LOG_TTL_TEXT,
                                               "WORKSPACE_LOG_LEVEL=WARNING", NULL };
    struct instance_options options = { .environment = environment };
    pthread_t threads[CHURNERS + USERS + POLLERS + 2];
    size_t count = 0;
    the = instance_start(&options);
    begin_work(threads, &count);
    long long begun = now_ms();
    for (int k = 1; k <= SAMPLES; k++) {
        sleep_ms((long)(begun + (long long)(seconds * 1000 * k / SAMPLES) - now_ms()));
        sample((double)(now_ms() - begun) / 1000);
    }
    atomic_store(&over, true);
    while (count > 0)
        pthread_join(threads[--count], NULL);
    int status = judge(seconds);
    instance_stop(the);
    return status;
}
