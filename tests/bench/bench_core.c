/* The figures of the core, in one run, through lighttpd, beside the same work done the plain way. See README,
 * "How fast it is". */
#include "lib/base/buffer.h"
#include "lib/base/ids.h"
#include "tests/bench/clients.h"
#include "tests/bench/figures.h"
#include "tests/bench/measure.h"
#include "tests/support/instance.h"
#include "tests/support/must.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/wait.h>

static struct instance *the;
static char ws[40];

/* Time until a plain command's first byte came through a pipe, in ms. */
static double plain_first_byte(const char *const *argv)
{
    int ends[2];
    char byte;
    double started = now_us();
    must_hold(pipe2(ends, O_CLOEXEC) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(ends[1], STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(ends[1]);
    must(read(ends[0], &byte, 1) == 1, "%s wrote nothing", argv[0]);
    double took = (now_us() - started) / 1000;
    close(ends[0]);
    waitpid(pid, NULL, 0);
    return took;
}

static void bench_create(void)
{
    struct samples measured = { 0 }, plain = { 0 };
    static const char *const bwrap[] = { "bwrap",       "--ro-bind",
                                         "/usr",        "/usr",
                                         "--symlink",   "usr/bin",
                                         "/bin",        "--symlink",
                                         "usr/lib",     "/lib",
                                         "--symlink",   "usr/lib64",
                                         "/lib64",      "--proc",
                                         "/proc",       "--dev",
                                         "/dev",        "--tmpfs",
                                         "/tmp",        "--unshare-all",
                                         "--share-net", "--die-with-parent",
                                         "--clearenv",  "bash",
                                         "-lc",         "echo hi",
                                         NULL };
    for (int k = 0; k < 40; k++) {
        char id[40];
        samples_add(&measured, measure_create(the, id, NULL));
        samples_add(&plain, plain_first_byte(bwrap));
        workspace_terminate(the, id);
    }
    table_times("create -> first output byte (bwrap alone)", &measured, &plain, 25);
    samples_free(&measured);
    samples_free(&plain);
}

static void bench_start(void)
{
    struct samples measured = { 0 }, plain = { 0 };
    static const char *const bash[] = { "env", "-i", "HOME=/tmp", "bash", "-lc", "echo hi", NULL };
    for (int k = 0; k < 200; k++) {
        samples_add(&measured, measure_start(the, ws));
        samples_add(&plain, plain_first_byte(bash));
    }
    table_times("start -> first stdout event (env -i bash -lc)", &measured, &plain, 5);
    samples_free(&measured);
    samples_free(&plain);
}

static void plain_wake(struct samples *plain, int count, const char *pause)
{
    char command[300], line[100];
    snprintf(command, sizeof command, MEASURE_STAMPS, count, pause);
    FILE *pipe = popen(command, "r");
    while (fgets(line, sizeof line, pipe))
        samples_add(plain, (now_us() - measure_stamp_in(line)) / 1000);
    pclose(pipe);
}

static void bench_wake_one(void)
{
    struct samples measured = { 0 }, plain = { 0 };
    measure_wake(the, ws, 100, "0.03", &measured);
    plain_wake(&plain, 100, "0.03");
    table_times("command writes -> client has it, 1 parked (pipe)", &measured, &plain, 2);
    samples_free(&measured);
    samples_free(&plain);
}

static void bench_wake_many(void)
{
    struct samples measured = { 0 };
    char command[300], ex[40];
    snprintf(command, sizeof command, MEASURE_STAMPS, 14, "1");
    exec_start_command(the, ws, command, ex);
    exec_wait_output(the, ws, ex, "stamp", 10000);
    for (int round = 0; round < 8; round++)
        clients_park_and_wake(the, ws, ex, 500, measure_stamp_in, &measured);
    table_times("the same, 500 parked on one exec", &measured, NULL, 25);
    samples_free(&measured);
    measure_cancel(the, ws, ex);
}

static void bench_status(void)
{
    char ex[40], path[200];
    exec_start_command(the, ws, "sleep 60", ex);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", ws, ex);
    struct samples latency = { 0 };
    double rate = clients_requests_per_second(the, path, 32, 4000, &latency);
    double plain = clients_requests_per_second(the, "/healthz", 32, 2000, NULL);
    table_number("status GETs, 32 at a time (/healthz)", rate, "/s", plain, 15000, 1);
    table_times("  latency of each", &latency, NULL, 0);
    samples_free(&latency);
    measure_cancel(the, ws, ex);
}

#define WRITER "yes 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abc | head -c %ld"

static double plain_capture(long bytes)
{
    char command[200];
    static char block[1 << 16];
    double started = now_us();
    snprintf(command, sizeof command, WRITER, bytes);
    FILE *pipe = popen(command, "r");
    while (read(fileno(pipe), block, sizeof block) > 0)
        ;
    pclose(pipe);
    return (double)bytes / (now_us() - started);
}

static void bench_capture(void)
{
    char command[200], ex[40];
    const long bytes = 500000000;
    snprintf(command, sizeof command, WRITER, bytes);
    struct samples rates = { 0 }, plain = { 0 };
    for (int k = 0; k < 3; k++) {
        double started = now_us();
        exec_start_command(the, ws, command, ex);
        clients_wait_exit(the, ws, ex);
        samples_add(&rates, (double)bytes / (now_us() - started));
        samples_add(&plain, plain_capture(bytes));
    }
    table_number("capture of 500 MB of output (into a pipe)", samples_percentile(&rates, 50), "MB/s",
                 samples_percentile(&plain, 50), 300, 1);
    samples_free(&rates);
    samples_free(&plain);
}

static void bench_read_back(void)
{
    char command[300], ex[40], want[ID_HASH_SIZE], got[ID_HASH_SIZE];
    const long bytes = 200000000;
    snprintf(command, sizeof command, WRITER, bytes);
    exec_start_command(the, ws, command, ex);
    clients_wait_exit(the, ws, ex);
    struct buffer out = BUFFER_INIT;
    double rate = clients_read_back(the, ws, ex, (size_t)bytes, &out);
    snprintf(command, sizeof command, WRITER " | sha256sum", bytes);
    FILE *pipe = popen(command, "r");
    must_hold(fscanf(pipe, "%64s", want) == 1);
    pclose(pipe);
    id_hash(out.data, out.length, got);
    must(strcmp(want, got) == 0, "what was read back differs: %zu bytes", out.length);
    buffer_free(&out);
    table_number("200 MB read back by cursor, SHA-256 equal (pipe)", rate, "MB/s", plain_capture(bytes), 150,
                 1);
}

static void bench_idle(void)
{
    enum { COUNT = 50 };
    static char ids[COUNT][40];
    double before = clients_keepers_pss_kib(the);
    for (int k = 0; k < COUNT; k++)
        workspace_create(the, NULL, ids[k]);
    sleep_ms(1500);
    double total = clients_keepers_pss_kib(the) - before;
    table_number("mean PSS of an idle workspace (50 of them)", total / COUNT / 1024, "MiB", -1, 2, 0);
    for (int k = 0; k < COUNT; k++)
        workspace_terminate(the, ids[k]);
}

static void bench_parked_memory(void)
{
    char ex[40];
    exec_start_command(the, ws, "echo up; sleep 300", ex);
    exec_wait_output(the, ws, ex, "up\n", 5000);
    double before = clients_workers_pss_kib(the);
    struct parked *parked = clients_park(the, ws, ex, 10000);
    double after = clients_workers_pss_kib(the);
    must(clients_parked_count(parked) == 10000, "only %zu are parked", clients_parked_count(parked));
    table_number("two workers holding 10,000 parked polls (none)", after / 1024, "MiB PSS", before / 1024, 32,
                 0);
    clients_unpark(parked);
    measure_cancel(the, ws, ex);
}

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_MAX_PARKED=20000",
                                               "WORKSPACE_MAX_PARKED_PER_PRINCIPAL=20000",
                                               "WORKSPACE_EVENT_LOG_BYTES=268435456",
                                               "WORKSPACE_MAX_WORKSPACES=1000",
                                               "WORKERS=2",
                                               "LIGHTTPD_WORKERS=2",
                                               NULL };
    struct instance_options options = { .environment = environment };
    the = instance_start(&options);
    workspace_create(the, NULL, ws);
    table_begin();
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = { { "create", bench_create },  { "start", bench_start },
                  { "wake1", bench_wake_one }, { "wake500", bench_wake_many },
                  { "idle", bench_idle },      { "parked", bench_parked_memory },
                  { "status", bench_status },  { "capture", bench_capture },
                  { "read", bench_read_back } };
    const char *only = getenv("ONLY"); /* names, e.g. ONLY="start read" */
    for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
        if (!only || strstr(only, parts[k].name))
            parts[k].run();
    int status = table_end();
    workspace_terminate(the, ws);
    instance_stop(the);
    return status;
}
