/* Owns what lies between a flight and the helper thread: either may be over before the other. It knows nothing
 * of what is done there. */
#include "fcgi/away.h"

struct away {
    struct flight *flight; /* NULL: over */
    struct call_work *work;
};

/* In the thread. */
static void work(void *user)
{
    struct away *a = user;
    a->work->run(a->work);
}

static void back(void *user)
{
    struct away *a = user;
    struct flight *f = a->flight;
    if (f) {
        f->away = NULL;
        f->work = STEAL(a->work);
        dispatch_go_on(f);
    } else {
        a->work->release(a->work);
    }
    free(a);
}

void away_begin(struct flight *f, struct call *call)
{
    struct away *a = xcalloc(1, sizeof(*a));
    a->flight = f;
    a->work = STEAL(call->work);
    f->away = a;
    f->in = STEAL(call->in);
    f->kept = STEAL(call->kept);
    f->workspace = STEAL(call->workspace);
    f->memo = STEAL(call->memo);
    loop_offload(f->service->loop, work, back, a);
}

void away_forget(struct flight *f)
{
    if (f->away)
        f->away->flight = NULL;
    if (f->work)
        f->work->release(f->work);
    f->away = NULL;
    f->work = NULL;
}
