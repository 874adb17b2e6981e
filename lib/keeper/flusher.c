/* Owns one thread with a small stack, all signals blocked; it touches nothing but events_writer_flush and its
 * own fields. */
#include "lib/keeper/flusher.h"

#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#define FLUSH_EVERY_S 1
#define STACK_BYTES   (256u << 10)

struct flusher {
    struct events_writer *writer;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool started, dirty, ending;
};

struct flusher *flusher_new(struct events_writer *w)
{
    struct flusher *f = xcalloc(1, sizeof(*f));
    f->writer = w;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    return f;
}

/* A second passes between two flushes, however often it is marked. */
static void pause_between(struct flusher *f)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FLUSH_EVERY_S;
    while (!f->ending && pthread_cond_timedwait(&f->wake, &f->lock, &until) == 0)
        continue;
}

static void *flusher_main(void *user)
{
    struct flusher *f = user;
    pthread_mutex_lock(&f->lock);
    while (!f->ending) {
        if (!f->dirty) {
            pthread_cond_wait(&f->wake, &f->lock);
            continue;
        }
        pause_between(f);
        if (f->ending)
            break;
        f->dirty = false;
        pthread_mutex_unlock(&f->lock);
        _cleanup_error_ struct error err = ERROR_INIT;
        if (events_writer_flush(f->writer, &err) < 0)
            log_warning("cannot flush the log: %s", err.message);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static void flusher_start(struct flusher *f)
{
    sigset_t all, old;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    f->started = pthread_create(&f->thread, &attributes, flusher_main, f) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
}

void flusher_mark(struct flusher *f)
{
    if (!f->started)
        flusher_start(f);
    pthread_mutex_lock(&f->lock);
    if (!f->dirty) {
        f->dirty = true;
        pthread_cond_signal(&f->wake);
    }
    pthread_mutex_unlock(&f->lock);
}

void flusher_free(struct flusher *f)
{
    if (f == NULL)
        return;
    if (f->started) {
        pthread_mutex_lock(&f->lock);
        f->ending = true;
        pthread_cond_signal(&f->wake);
        pthread_mutex_unlock(&f->lock);
        pthread_join(f->thread, NULL);
    }
    pthread_cond_destroy(&f->wake);
    pthread_mutex_destroy(&f->lock);
    free(f);
}
