/* The table of deeds and the time between them. What a deed breaks for a while is put down with the time of
 * its mending. A death is written into the ledger before it is done, so that nobody sees the loss before its
 * reason. */
#include "tests/chaos/saboteur.h"

#include "lib/base/process.h"
#include "tests/chaos/wreck.h"
#include "tests/support/instance_private.h"

#include <signal.h>
#include <stdio.h>

#define MENDS_MAX    64
#define HOUR_US      (INT64_C(3600) * 1000000)
#define MOST_HOURS   10 /* off: less than anything is kept for */
#define DEED_MOST_MS 700

struct saboteur {
    const struct instance *instance;
    uint64_t random;
    struct mend {
        long long at_ms;
        int pidfd; /* to be continued; -1 = the disk is to be emptied */
    } mends[MENDS_MAX];
    unsigned mend_count;
    bool full;
};

/* ---- mending ---- */

static void mend_later(struct saboteur *s, int pidfd, long ms)
{
    s->mends[s->mend_count++] = (struct mend){ now_ms() + ms, pidfd };
}

static void mend_one(struct saboteur *s, unsigned at)
{
    int pidfd = s->mends[at].pidfd;
    s->mends[at] = s->mends[--s->mend_count];
    if (pidfd >= 0) {
        process_pidfd_signal(pidfd, SIGCONT);
        close(pidfd);
        return;
    }
    disk_empty();
    s->full = false;
    tell("the disk has room again");
}

static void mend_due(struct saboteur *s, long long now)
{
    for (unsigned k = s->mend_count; k > 0; k--)
        if (s->mends[k - 1].at_ms <= now)
            mend_one(s, k - 1);
}

/* ---- deeds ---- */

struct deed {
    const char *name;
    unsigned weight;
    void (*run)(struct saboteur *s, const struct deed *d);
    enum role role;
    int signal;
    const char *leaf;
};

static enum death death_by(enum role role)
{
    return role == ROLE_KEEPER ? DEATH_KEEPER : DEATH_SANDBOX;
}

static void count_death(const struct prey *p, enum role role)
{
    if (p->place && (role == ROLE_KEEPER || role == ROLE_BOX || role == ROLE_AGENT))
        atomic_fetch_add(&p->place->deaths[death_by(role)], 1);
}

static void send_signal(struct saboteur *s, const struct deed *d)
{
    struct prey p;
    unsigned choice = (unsigned)random_next(&s->random);
    if (!prey_find(s->instance, d->role, choice, &p))
        return;
    if (d->signal == SIGKILL)
        count_death(&p, d->role);
    tell("%s %s %d %s", d->name, prey_name(d->role), p.pid, p.workspace);
    process_pidfd_signal(p.pidfd, d->signal);
    close(p.pidfd);
}

static void kill_all(struct saboteur *s, const struct deed *d)
{
    struct prey p;
    tell("%s", d->name);
    for (unsigned k = 0; k < 16 && prey_find(s->instance, d->role, k, &p); k++) {
        process_pidfd_signal(p.pidfd, SIGKILL);
        close(p.pidfd);
    }
}

static void freeze(struct saboteur *s, const struct deed *d)
{
    struct prey p;
    unsigned choice = (unsigned)random_next(&s->random);
    long ms = (long)random_between(&s->random, 20, 2500);
    if (s->mend_count == MENDS_MAX || !prey_find(s->instance, d->role, choice, &p))
        return;
    tell("%s %s %d %s for %ld ms", d->name, prey_name(d->role), p.pid, p.workspace, ms);
    process_pidfd_signal(p.pidfd, SIGSTOP);
    mend_later(s, p.pidfd, ms);
}

static void fill(struct saboteur *s, const struct deed *d)
{
    long ms = (long)random_between(&s->random, 100, 3000);
    if (s->full || s->mend_count == MENDS_MAX || !disk_is_small())
        return;
    s->full = true;
    tell("%s for %ld ms", d->name, ms);
    disk_fill();
    mend_later(s, -1, ms);
}

static void shift_clock(struct saboteur *s, const struct deed *d)
{
    int64_t us = ((int64_t)random_below(&s->random, 2 * MOST_HOURS * 3600) - MOST_HOURS * 3600) * 1000000 +
                 random_below(&s->random, 1000000);
    tell("%s to %+.3f hours", d->name, (double)us / (double)HOUR_US);
    clock_shift(us);
}

static void bother_socket(struct saboteur *s, const struct deed *d)
{
    tell("%s: %s", d->name, garbage_to_socket(s->instance, d->leaf, &s->random));
}

static void bother_keeper(struct saboteur *s, const struct deed *d)
{
    struct prey p;
    char leaf[80];
    if (!prey_find(s->instance, ROLE_KEEPER, (unsigned)random_next(&s->random), &p))
        return;
    snprintf(leaf, sizeof leaf, "run/%s.sock", p.workspace);
    tell("%s %s: %s", d->name, p.workspace, garbage_to_socket(s->instance, leaf, &s->random));
    close(p.pidfd);
}

static void break_channel(struct saboteur *s, const struct deed *d)
{
    struct prey p;
    if (!prey_find(s->instance, ROLE_AGENT, (unsigned)random_next(&s->random), &p))
        return;
    count_death(&p, ROLE_AGENT);
    tell("%s %s: %s", d->name, p.workspace, garbage_to_channel(&p, &s->random));
    close(p.pidfd);
}

static const struct deed deeds[] = {
    { "kill", 10, send_signal, ROLE_WORKER, SIGKILL, NULL },
    { "kill", 3, send_signal, ROLE_MASTER, SIGKILL, NULL },
    { "kill", 6, send_signal, ROLE_WARDEN, SIGKILL, NULL },
    { "kill", 6, send_signal, ROLE_KEEPER, SIGKILL, NULL },
    { "kill", 2, send_signal, ROLE_BOX, SIGKILL, NULL },
    { "kill", 2, send_signal, ROLE_AGENT, SIGKILL, NULL },
    { "kill", 3, send_signal, ROLE_FRONT, SIGKILL, NULL },
    { "kill", 8, send_signal, ROLE_READER, SIGKILL, NULL },
    { "kill all workers", 2, kill_all, ROLE_WORKER, SIGKILL, NULL },
    { "end", 3, send_signal, ROLE_WORKER, SIGTERM, NULL },
    { "reload", 2, send_signal, ROLE_MASTER, SIGHUP, NULL },
    { "end", 2, send_signal, ROLE_WARDEN, SIGTERM, NULL },
    { "stop", 6, freeze, ROLE_WORKER, SIGSTOP, NULL },
    { "stop", 2, freeze, ROLE_MASTER, SIGSTOP, NULL },
    { "stop", 4, freeze, ROLE_WARDEN, SIGSTOP, NULL },
    { "stop", 7, freeze, ROLE_KEEPER, SIGSTOP, NULL },
    { "stop", 3, freeze, ROLE_AGENT, SIGSTOP, NULL },
    { "stop", 3, freeze, ROLE_FRONT, SIGSTOP, NULL },
    { "stop", 4, freeze, ROLE_READER, SIGSTOP, NULL },
    { "fill the disk", 6, fill, 0, 0, NULL },
    { "move the clock", 6, shift_clock, 0, 0, NULL },
    { "garbage for the warden", 4, bother_socket, 0, 0, "run/warden.sock" },
    { "garbage for the workers", 3, bother_socket, 0, 0, "fcgi.sock" },
    { "garbage for keeper", 6, bother_keeper, 0, 0, NULL },
    { "garbage for the channel of", 2, break_channel, 0, 0, NULL },
};

static const struct deed *choose(struct saboteur *s)
{
    unsigned sum = 0;
    for (size_t k = 0; k < N_ELEMENTS(deeds); k++)
        sum += deeds[k].weight;
    unsigned at = random_below(&s->random, sum);
    for (size_t k = 0; k < N_ELEMENTS(deeds); at -= deeds[k++].weight)
        if (at < deeds[k].weight)
            return &deeds[k];
    return &deeds[0];
}

static void wait_until(struct saboteur *s, long long at_ms)
{
    do {
        mend_due(s, now_ms());
        reap(s->instance->pid);
        sleep_ms(10);
    } while (now_ms() < at_ms && atomic_load(&ledger->failures) == 0);
}

void saboteur_run(const struct instance *i, unsigned seconds)
{
    struct saboteur s = { .instance = i };
    long long end = now_ms() + seconds * 1000LL;
    for (unsigned number = 0; now_ms() < end && atomic_load(&ledger->failures) == 0; number++) {
        /* Anew for each: how much chance the one before needed depends on what it met. */
        s.random = random_seed_of(ledger->seed, "deed", number);
        const struct deed *d = choose(&s);
        d->run(&s, d);
        wait_until(&s, now_ms() + (long long)random_below(&s.random, DEED_MOST_MS));
    }
    mend_due(&s, now_ms() + 1000000);
    garbage_close();
    tell("the storm is over");
}
