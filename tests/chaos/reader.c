/* A reader picks a command, follows it for a while or to its end, and judges what it saw. Knows the ledger
 * and the gateway alone. */
#include "tests/chaos/reader.h"

#include "tests/chaos/work.h"
#include "tests/support/instance_private.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

static struct entry *pick(uint64_t *random)
{
    unsigned count = atomic_load(&ledger->entry_count), from = count > 40 ? count - 40 : 0;
    if (count == 0)
        return NULL;
    struct entry *e = &ledger->entries[random_between(random, from, count - 1)];
    int state = atomic_load(&e->state);
    return state == ENTRY_RUNS || state == ENTRY_ENDED ? e : NULL;
}

static bool is_readable(const struct entry *e)
{
    return atomic_load(&e->state) != ENTRY_REMOVED && !atomic_load(&ledger->closed);
}

static void follow(const struct instance *i, struct entry *e, uint64_t *random)
{
    struct chase c;
    char why[500];
    bool stream = random_below(random, 2);
    long long until = now_ms() + random_between(random, 200, 12000);
    chase_begin(&c, e);
    while ((!c.ended || c.more) && is_readable(e) && now_ms() < until) {
        enum visit v = stream ? chase_stream(&c, i, (long)random_between(random, 100, 6000))
                              : chase_page(&c, i, (int)random_below(random, 4), random);
        if (v == VISIT_GONE || v == VISIT_BROKEN)
            break;
        if (v == VISIT_AGAIN)
            sleep_ms((long)random_between(random, 10, 150));
    }
    if (!work_judge(e, &c, c.ended && !c.more, why, sizeof why) && is_readable(e))
        fail("a reader%s of %s (%s) of %s: %s", stream ? " of the stream" : "", e->id, work_name(e->kind),
             entry_place(e)->id, why);
    chase_clear(&c);
}

int reader_main(char **argv)
{
    struct instance i = { 0 };
    ledger_attach(atoi(argv[2]));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    uint64_t random = random_seed_of(ledger->seed, "reader", (unsigned)atoi(argv[3]));
    memcpy(i.url, ledger->url, sizeof i.url);
    memcpy(i.token, ledger->token, sizeof i.token);
    while (!atomic_load(&ledger->closed)) {
        struct entry *e = pick(&random);
        if (e)
            follow(&i, e, &random);
        else
            sleep_ms(50);
    }
    http_thread_end();
    return 0;
}
