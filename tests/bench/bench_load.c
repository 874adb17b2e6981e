/* How the figures hold when the machine is full: the same measurements on the idle instance, beside 50
 * commands that print, and beside 200 live workspaces with 5,000 parked polls. Then what each part used,
 * which says what would limit more. See README, "How far one machine goes". */
#include "tests/bench/clients.h"
#include "tests/bench/costs.h"
#include "tests/bench/herd.h"
#include "tests/bench/measure.h"
#include "tests/support/must.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { PRINTERS = 50, LIVE = 200, PARKED = 5000, WOKEN = 500, WRITE_ROUNDS = 3 };

#define PRINT                                                                                                \
    "exec python3 -uSc 'import time\nk = 0\nwhile True:\n  time.sleep(0.1)\n  k += 1\n  print(\"line\", k, " \
    "flush=True)'"
#define TICK "exec python3 -uSc 'import time\nwhile True:\n  time.sleep(0.5)\n  print(\"tick\", flush=True)'"
#define WRITE                                                                                                \
    "yes 0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abc | head -c 300000000"

static struct instance *the;
static char ws[40]; /* where everything is measured */
static char live[LIVE][40], printer[PRINTERS][40], quiet[LIVE][40];

struct set {
    struct samples created, first_byte, start, wake, status;
};
static struct set idle, printing, full;

/* ---- measuring ---- */

static void measure_common(struct set *s, int starts, int wakes)
{
    for (int k = 0; k < starts; k++)
        samples_add(&s->start, measure_start(the, ws));
    measure_wake(the, ws, wakes, "0.02", &s->wake);
}

static void measure_creates(struct set *s, int count)
{
    for (int k = 0; k < count; k++) {
        char id[40];
        double created;
        samples_add(&s->first_byte, measure_create(the, id, &created));
        samples_add(&s->created, created);
        workspace_terminate(the, id);
    }
}

static void measure_statuses(struct set *s, const char *ex, int count)
{
    for (int k = 0; k < count; k++)
        samples_add(&s->status, measure_status(the, ws, ex));
}

/* ---- load ---- */

/* In the same workspace as what is measured. A thread: requests of another thread have their own connection.
 */
static void *write_rounds(void *user)
{
    char ex[40];
    for (int k = 0; k < WRITE_ROUNDS; k++) {
        exec_start_command(the, ws, WRITE, ex);
        clients_wait_exit(the, ws, ex);
    }
    atomic_store((atomic_bool *)user, true);
    return NULL;
}

static void bench_status_beside_writer(void)
{
    char ticker[40], ex[40];
    exec_start_command(the, ws, "sleep 600", ex);
    exec_start_command(the, ws, TICK, ticker);
    struct herd_exec target = { ws, ticker };
    struct herd *herd = herd_start(the, &target, 1, WOKEN);
    unsigned long before = herd_answers(herd);
    double started = now_us();
    atomic_bool written = false;
    pthread_t writer;
    must_hold(pthread_create(&writer, NULL, write_rounds, &written) == 0);
    while (!atomic_load(&written))
        samples_add(&printing.status, measure_status(the, ws, ex));
    pthread_join(writer, NULL);
    double seconds = (now_us() - started) / 1e6;
    double wakes = (double)(herd_answers(herd) - before);
    herd_end(herd);
    table_load("status GET beside 300 MB written, 500 polls waking", &printing.status, &idle.status, 20);
    table_number("  the writers got meanwhile", WRITE_ROUNDS * 300 / seconds, "MB/s", -1, 0, 1);
    table_number("  polls woken meanwhile", wakes / seconds, "/s", -1, 0, 1);
    measure_cancel(the, ws, ticker);
    measure_cancel(the, ws, ex);
}

static void bench_idle(void)
{
    char ex[40];
    measure_creates(&idle, 25);
    measure_common(&idle, 100, 100);
    exec_start_command(the, ws, "sleep 600", ex);
    measure_statuses(&idle, ex, 500);
    measure_cancel(the, ws, ex);
}

/* ---- what it costs ---- */

static void subtract(struct cost *after, const struct cost *before)
{
    for (int k = 0; k < COST_KINDS; k++) {
        after[k].cpu_us -= before[k].cpu_us;
        after[k].switches -= before[k].switches;
    }
}

static void print_costs(const struct cost *used, double seconds, double events)
{
    double sum = 0;
    printf("%-50s %10s %10s %12s %12s\n", "", "processes", "CPU %", "CPU us/event", "switches/ev.");
    for (int k = 0; k < COST_KINDS; k++) {
        printf("  %-48s %10zu %10.1f %12.1f %12.2f\n", cost_names[k], used[k].processes,
               used[k].cpu_us / seconds / 1e4, events > 0 ? used[k].cpu_us / events : 0,
               events > 0 ? used[k].switches / events : 0);
        sum += used[k].cpu_us;
    }
    printf("  %-48s %10s %10.1f %12.1f\n", "all", "", sum / seconds / 1e4, events > 0 ? sum / events : 0);
    fflush(stdout);
}

/* Each printed line goes agent -> keeper -> store -> worker -> lighttpd -> a client that follows. */
static void bench_cost_of_events(void)
{
    struct herd_exec targets[PRINTERS];
    struct cost before[COST_KINDS], after[COST_KINDS];
    for (int k = 0; k < PRINTERS; k++)
        targets[k] = (struct herd_exec){ live[k], printer[k] };
    struct herd *herd = herd_start(the, targets, PRINTERS, PRINTERS);
    sleep_ms(1000); /* until all have caught up */
    unsigned long answers = herd_answers(herd);
    double started = now_us();
    costs_read(the, before, false);
    sleep_ms(4000);
    costs_read(the, after, false);
    double seconds = (now_us() - started) / 1e6, events = (double)(herd_answers(herd) - answers);
    herd_end(herd);
    subtract(after, before);
    printf("\n50 commands print 10 lines a second each, each followed by one client: %.0f events/s\n",
           events / seconds);
    print_costs(after, seconds, events);
}

static void bench_cost_at_rest(void)
{
    struct cost before[COST_KINDS], after[COST_KINDS];
    double started = now_us();
    costs_read(the, before, false);
    sleep_ms(4000);
    costs_read(the, after, true);
    double seconds = (now_us() - started) / 1e6;
    subtract(after, before);
    printf("\n%d live workspaces (a sleeping command in each), %d parked polls, at rest\n", LIVE, PARKED);
    print_costs(after, seconds, 0);
    double below = after[COST_KEEPERS].pss_kib + after[COST_BWRAP].pss_kib + after[COST_AGENTS].pss_kib;
    table_number("  memory of a workspace: keeper", after[COST_KEEPERS].pss_kib / LIVE / 1024, "MiB PSS", -1,
                 0, 0);
    table_number("  ... keeper, bwrap, agent", below / LIVE / 1024, "MiB PSS", -1, 0, 0);
    table_number("  memory of the workers", after[COST_WORKERS].pss_kib / 1024, "MiB PSS", -1, 0, 0);
    table_number("  memory of lighttpd", after[COST_FRONT].pss_kib / 1024, "MiB PSS", -1, 0, 0);
    table_number("  descriptors of a workspace: keeper", (double)after[COST_KEEPERS].descriptors / LIVE, "",
                 -1, 0, 0);
    table_number("  descriptors: workers", (double)after[COST_WORKERS].descriptors, "", -1, 0, 0);
    table_number("  descriptors: lighttpd", (double)after[COST_FRONT].descriptors, "", -1, 0, 0);
    table_number("  descriptors: warden", (double)after[COST_WARDEN].descriptors, "", -1, 0, 0);
}

/* ---- the three loads ---- */

static void bench_printing(void)
{
    for (int k = 0; k < PRINTERS; k++) {
        workspace_create(the, NULL, live[k]);
        exec_start_command(the, live[k], PRINT, printer[k]);
    }
    sleep_ms(500); /* the interpreters have started */
    measure_common(&printing, 150, 150);
    table_load("wake of 1 parked, beside 50 x 10 lines/s", &printing.wake, &idle.wake, 10);
    table_load("start -> first stdout event, the same", &printing.start, &idle.start, 25);
    bench_status_beside_writer();
    bench_cost_of_events();
    for (int k = 0; k < PRINTERS; k++)
        measure_cancel(the, live[k], printer[k]);
}

static void bench_full(void)
{
    struct herd_exec targets[LIVE];
    for (int k = 0; k < LIVE; k++) {
        if (k >= PRINTERS)
            workspace_create(the, NULL, live[k]);
        exec_start_command(the, live[k], "exec sleep 600", quiet[k]);
        targets[k] = (struct herd_exec){ live[k], quiet[k] };
    }
    struct herd *herd = herd_start(the, targets, LIVE, PARKED);
    printf("\n");
    measure_common(&full, 150, 150);
    measure_creates(&full, 25);
    table_load("create, with 200 live and 5,000 parked", &full.created, &idle.created, 0);
    table_load("create -> first output byte, the same", &full.first_byte, &idle.first_byte, 0);
    table_load("start -> first stdout event, the same", &full.start, &idle.start, 0);
    table_load("wake of 1 parked, the same", &full.wake, &idle.wake, 0);
    bench_cost_at_rest();
    herd_end(herd);
}

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_MAX_PARKED=20000",
                                               "WORKSPACE_MAX_PARKED_PER_PRINCIPAL=20000",
                                               "WORKSPACE_MAX_WORKSPACES=1000",
                                               "WORKERS=2",
                                               "LIGHTTPD_WORKERS=2",
                                               NULL };
    struct instance_options options = { .environment = environment };
    the = instance_start(&options);
    workspace_create(the, NULL, ws);
    table_load_begin();
    bench_idle();
    bench_printing();
    bench_full();
    int status = table_end();
    instance_stop(the);
    return status;
}
