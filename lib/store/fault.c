/* Owns the handlers of SIGBUS and SIGSEGV and where each thread goes on after one. A fault outside of a guard
 * is none of its business: it goes to whoever had the signal before. */
#include "lib/store/fault.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static _Thread_local sigjmp_buf *guard;

static const int signals[] = { SIGBUS, SIGSEGV };
static struct sigaction before[sizeof signals / sizeof *signals];

static void leave(void)
{
    sigjmp_buf *to = guard;
    if (to)
        siglongjmp(*to, 1);
}

/* After return the same instruction faults again, in the way it would have without us. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    leave();
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (signals[i] == number)
            sigaction(number, &before[i], NULL);
}

/* SA_NODEFER: the handler is left by a jump, which does not give a blocked signal back. */
static void install(void)
{
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, &before[i]);
}

bool fault_guard(fault_body *body, void *user)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigjmp_buf here;
    sigjmp_buf *const outer = guard;
    pthread_once(&once, install);
    if (sigsetjmp(here, 0) != 0) {
        guard = outer;
        return false;
    }
    guard = &here;
    body(user);
    guard = outer;
    return true;
}

void fault_assert(MDB_env *env, const char *message)
{
    (void)env;
    (void)message;
    leave();
}
