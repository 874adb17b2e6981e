/* The shared memory of the chaos test, its failures, its random numbers. Knows no HTTP and no process. */
#include "tests/chaos/ledger.h"

#include "tests/support/instance.h"
#include "tests/support/must.h"

#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>

struct ledger *ledger;
static long long begun_ms;

static void map(int fd)
{
    void *at = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, "the shared memory of the test cannot be mapped: %m");
    ledger = at;
    begun_ms = now_ms();
}

int ledger_make(void)
{
    int fd = memfd_create("chaos", 0);
    must(fd >= 0 && ftruncate(fd, sizeof(*ledger)) == 0, "memfd: %m");
    map(fd);
    return fd;
}

void ledger_attach(int fd)
{
    map(fd);
}

/* Readers add none, so that a lock within the driver will do. */
struct place *ledger_place(const char *id)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    unsigned at = 0, count = atomic_load(&ledger->place_count);
    while (at < count && strcmp(ledger->places[at].id, id) != 0)
        at++;
    must(at < PLACES_MAX, "too many workspaces for the ledger");
    if (at == count) {
        snprintf(ledger->places[at].id, sizeof ledger->places[at].id, "%s", id);
        atomic_store(&ledger->place_count, count + 1);
    }
    pthread_mutex_unlock(&lock);
    return &ledger->places[at];
}

struct place *entry_place(const struct entry *e)
{
    return &ledger->places[e->place];
}

struct entry *ledger_add_entry(struct place *place, int kind, uint64_t seed)
{
    unsigned at = atomic_fetch_add(&ledger->entry_count, 1);
    must(at < ENTRIES_MAX, "too many commands for the ledger");
    struct entry *e = &ledger->entries[at];
    e->place = (unsigned)(place - ledger->places);
    e->kind = kind;
    e->seed = seed;
    for (int i = 0; i < DEATHS; i++)
        e->deaths_before[i] = atomic_load(&place->deaths[i]);
    return e;
}

void fail(const char *format, ...)
{
    char text[sizeof ledger->failure[0]];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (char *c = text; *c; c++) /* output of commands may be in it */
        if ((unsigned char)*c < ' ')
            *c = '~';
    unsigned at = atomic_fetch_add(&ledger->failures, 1);
    if (at < FAILURES)
        memcpy(ledger->failure[at], text, sizeof text);
    tell("FAILURE %s", text);
}

void tell(const char *format, ...)
{
    char text[1000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    printf("%8.3f  %s\n", (double)(now_ms() - begun_ms) / 1000, text);
    fflush(stdout);
}

/* splitmix64 */
uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint64_t random_seed_of(uint64_t seed, const char *actor, unsigned number)
{
    uint64_t state = seed + number * 0x100000001b3;
    for (; *actor; actor++)
        state = random_next(&state) ^ (unsigned char)*actor;
    return random_next(&state);
}

unsigned random_below(uint64_t *state, unsigned bound)
{
    return bound ? (unsigned)(random_next(state) % bound) : 0;
}

unsigned random_between(uint64_t *state, unsigned low, unsigned high)
{
    return low + random_below(state, high - low + 1);
}
