/* The chaos test: commands whose output is known run in several workspaces and are read by many while
 * everything around them is killed, stopped, filled, broken and mended; at the end every promise is checked.
 * CHAOS_SECONDS and SEED (or CHAOS_SEED) come from the environment; a seed gives the same decisions again.
 * CHAOS_KEEP leaves the state directory. */
#include "tests/chaos/aftermath.h"
#include "tests/chaos/prey.h"
#include "tests/chaos/reader.h"
#include "tests/chaos/saboteur.h"
#include "tests/chaos/tenant.h"
#include "tests/chaos/wreck.h"

#include "lib/base/ids.h"
#include "tests/support/instance_private.h"
#include "tests/support/must.h"

#include <stdio.h>
#include <sys/prctl.h>

#define USER    "games" /* of its own, so that its limits are not shared */
#define TENANTS 6
#define READERS 5

static uint64_t choose_seed(void)
{
    const char *given = getenv("SEED"), *usual = getenv("CHAOS_SEED");
    uint64_t seed = 0;
    if (!given || !*given)
        given = usual;
    if (given && *given)
        return strtoull(given, NULL, 0);
    id_random(&seed, sizeof seed);
    return seed >> 16; /* short enough to be typed */
}

static unsigned choose_seconds(void)
{
    const char *given = getenv("CHAOS_SECONDS");
    return given && atoi(given) > 0 ? (unsigned)atoi(given) : 60;
}

/* AS=www-data, as for other tests: all but the saboteur runs without root. */
static bool is_unprivileged(void)
{
    const char *as = getenv("AS");
    return as && strcmp(as, "www-data") == 0;
}

static struct instance *start(const char *disk, const char *log)
{
    char preload[600], clock[200];
    const char *environment[] = { "WORKSPACE_EVENT_MAP_BYTES=65536",
                                  "WORKSPACE_EVENT_LOG_BYTES=4194304",
                                  "WORKSPACE_EVENT_LOG_TTL=8640000",
                                  "WORKSPACE_USER=" USER,
                                  "ASAN_OPTIONS=verify_asan_link_order=0",
                                  preload,
                                  clock,
                                  NULL };
    const char *why = clock_make(preload, clock, sizeof clock);
    if (why) {
        tell("the clock will not be moved: %s", why);
        environment[5] = NULL;
    }
    struct instance_options options = {
        .environment = environment, .state_dir = disk, .log_path = log, .unprivileged = is_unprivileged()
    };
    struct instance *i = instance_start(&options);
    memcpy(ledger->url, i->url, sizeof ledger->url);
    memcpy(ledger->token, i->token, sizeof ledger->token);
    return i;
}

static void storm(struct instance *i, int ledger_fd, unsigned seconds)
{
    struct tenants *tenants = tenants_start(i, TENANTS);
    readers_start(READERS, ledger_fd);
    saboteur_run(i, seconds);
    atomic_store(&ledger->closing, true);
    tenants_join(tenants);
    readers_end();
}

static void end(struct instance *i, const char *disk, const char *log)
{
    char first[80] = "";
    instance_stop(i);
    for (long long deadline = now_ms() + 3000; now_ms() < deadline && children_left(0, first, sizeof first);
         sleep_ms(20))
        reap(0);
    unsigned left = children_left(0, first, sizeof first);
    if (left > 0)
        fail("%u processes are left, the first is %s", left, first);
    aftermath_ended(disk, log);
}

static int sum_up(void)
{
    unsigned failures = atomic_load(&ledger->failures);
    printf("seed %llu: %u workspaces, %u commands; judged %lu whole, %lu shortened, %lu lost; %lu requests, "
           "%lu pages, %lu streams, "
           "%lu events: %u failures\n",
           (unsigned long long)ledger->seed, ledger->place_count, ledger->entry_count, ledger->whole,
           ledger->shortened, ledger->lost, ledger->tries, ledger->pages, ledger->streams, ledger->events,
           failures);
    for (unsigned k = 0; k < failures && k < FAILURES; k++)
        printf("  %s\n", ledger->failure[k]);
    return failures == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "reader") == 0)
        return reader_main(argv);
    int ledger_fd = ledger_make();
    unsigned seconds = choose_seconds();
    ledger->seed = choose_seed();
    printf("chaos: SEED=%llu CHAOS_SECONDS=%u\n", (unsigned long long)ledger->seed, seconds);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    char *disk = disk_make(USER);
    _cleanup_free_ char *log = xasprintf("%s.log", disk);
    struct instance *i = start(disk, log);
    storm(i, ledger_fd, seconds);
    aftermath_running(i);
    end(i, disk, log);
    int status = sum_up();
    http_thread_end();
    clock_remove();
    if (status != 0)
        printf("the log of the installation is %s\n", log);
    else
        unlink(log);
    if (!getenv("CHAOS_KEEP"))
        disk_remove();
    return status;
}
