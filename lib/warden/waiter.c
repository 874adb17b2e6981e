/* Owns who waits for what a place does: each is a request on a connection, answered once. Knows nothing of
 * what is done. */
#include "lib/warden/internal.h"

void waiter_add(struct waiter **list, struct peer *peer, uint32_t stream)
{
    struct waiter *waiter = xcalloc(1, sizeof(*waiter));
    *waiter = (struct waiter){ .next = *list, .peer = peer, .stream = stream };
    *list = waiter;
}

void waiters_answer(struct waiter **list, const json_t *ret, const struct error *err)
{
    while (*list != NULL) {
        struct waiter *waiter = *list;
        *list = waiter->next;
        channel_send_reply(peer_channel(waiter->peer), waiter->stream, ret, err);
        free(waiter);
    }
}

void waiters_forget(struct waiter **list, const struct peer *peer)
{
    while (*list != NULL) {
        struct waiter *waiter = *list;
        if (waiter->peer != peer) {
            list = &waiter->next;
            continue;
        }
        *list = waiter->next;
        free(waiter);
    }
}

void waiters_free(struct waiter *first)
{
    for (struct waiter *next; first != NULL; first = next) {
        next = first->next;
        free(first);
    }
}
