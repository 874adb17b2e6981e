/* One helper thread with a queue. The thread blocks every signal, so that the loop's signalfd alone sees
 * them, and touches nothing of the loop but loop_post. */
#include "fcgi/offload.h"

#include "lib/base/memory.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

struct job {
    struct job *next;
    loop_call *work, *done;
    void *user;
};

struct offload {
    struct loop *loop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first, **end;
    bool quit;
};

/* NULL once the queue is empty and the thread shall end. */
static struct job *take(struct offload *o)
{
    pthread_mutex_lock(&o->lock);
    while (o->first == NULL && !o->quit)
        pthread_cond_wait(&o->changed, &o->lock);
    struct job *job = o->first;
    if (job != NULL && (o->first = job->next) == NULL)
        o->end = &o->first;
    pthread_mutex_unlock(&o->lock);
    return job;
}

static void *run(void *user)
{
    struct offload *o = user;

    for (struct job *job; (job = take(o)) != NULL; free(job)) {
        job->work(job->user);
        if (job->done != NULL)
            loop_post(o->loop, job->done, job->user);
    }
    return NULL;
}

struct offload *offload_new(struct loop *l)
{
    struct offload *o = xcalloc(1, sizeof(*o));
    sigset_t all, old;

    o->loop = l;
    o->end = &o->first;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if ((errno = pthread_create(&o->thread, NULL, run, o)) != 0) {
        perror("helper thread");
        abort();
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return o;
}

void offload_add(struct offload *o, loop_call *work, loop_call *done, void *user)
{
    struct job *job = xmalloc(sizeof(*job));

    *job = (struct job){ NULL, work, done, user };
    pthread_mutex_lock(&o->lock);
    *o->end = job;
    o->end = &job->next;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

void offload_free(struct offload *o)
{
    if (o == NULL)
        return;
    pthread_mutex_lock(&o->lock);
    o->quit = true;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
    pthread_join(o->thread, NULL);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->changed);
    free(o);
}
