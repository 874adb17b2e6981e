/* What client.c (requests, subscriptions, turns) and client_link.c (connections) share. Nobody else includes
 * it. */
#ifndef KEEPER_CLIENT_STATE_H
#define KEEPER_CLIENT_STATE_H

#include "lib/base/ids.h"
#include "lib/base/poller.h"
#include "lib/keeper/client.h"
#include "lib/wire/channel.h"

#include <sys/queue.h>

/* One connection, wanted or open: to a keeper, or to the warden (workspace_id ""). */
struct client_link {
    SLIST_ENTRY(client_link) in_bucket;
    struct keeper_client *client;
    char workspace_id[ID_SIZE];
    enum link_phase {
        LINK_DOWN,
        LINK_STARTING, /* the warden is asked to start the keeper, or called itself */
        LINK_UP,
    } phase;
    struct channel *channel;
    uint32_t interest; /* as epoll has it */
    uint32_t last_stream;
    bool broken;        /* a write failed: to be taken down by the next turn */
    bool retiring;      /* the keeper stops: it answers what it took in, new requests wait for its end */
    int attempts;       /* of starting */
    int64_t retry_ms;   /* 0 = none */
    int64_t give_up_ms; /* of calling the warden */
    int64_t used_ms;
    LIST_HEAD(pending_list, pending) pendings;
    LIST_HEAD(watch_list, watch) watches;
};

/* One request until its answer. */
struct pending {
    LIST_ENTRY(pending) in_link; /* while link is set */
    TAILQ_ENTRY(pending) in_client;
    struct client_link *link; /* NULL: it has failed, error says why */
    uint64_t number;
    uint32_t stream; /* 0 = not sent on the present connection */
    char *text;      /* the message */
    size_t length;
    json_t *data; /* the text that follows; NULL = none */
    size_t data_sent;
    bool data_ended;
    const struct keeper_transfer *transfer; /* NULL = an answer is all */
    int64_t silence_ms;                     /* of a transfer */
    bool answered, wants_room, gave;        /* of a transfer; gave: bytes that cannot be given again */
    int64_t deadline_ms;
    int64_t sent_ms, patience_ms; /* patience_ms 0 = none */
    bool start, restarted;
    bool repeatable; /* doing it twice does no harm: sent again when the peer died on it, once */
    keeper_answer *answer;
    void *user;
    struct error error;
};

/* One exec that somebody here is subscribed to. */
struct watch {
    LIST_ENTRY(watch) entry;
    struct keeper_client *client;
    struct client_link *link; /* NULL: no keeper */
    uint32_t stream;          /* 0 = not told to the keeper yet */
    char exec_id[ID_SIZE];
    LIST_HEAD(subscription_list, keeper_subscription) subscriptions;
};

struct keeper_subscription {
    LIST_ENTRY(keeper_subscription) entry;
    struct watch *watch;
    keeper_changed *changed;
    void *user;
};

#define LINK_BUCKETS 256
struct keeper_client {
    const struct config *config;
    keeper_ensure *ensure;
    void *ensure_user;
    int64_t ensured_ms; /* when ensure was called last */
    struct poller poller;
    int timer_fd;
    int64_t armed_ms; /* 0 = the timer is off */
    uint64_t last_number;
    SLIST_HEAD(, client_link) buckets[LINK_BUCKETS];
    TAILQ_HEAD(, pending) pendings;
    bool has_failed;                       /* a pending without link waits for its turn */
    struct watch_list orphans;             /* watches whose keeper is gone, to be told */
    struct watch_list told;                /* those that were; their owners unsubscribe */
    struct keeper_subscription *next_told; /* while changed callbacks run: who is next */
};

/* client_link.c */
struct client_link *client_link_get(struct keeper_client *c,
                                    const char *workspace_id); /* made where there is none */
/* Gives p to its link: sent, or waiting for the connection, or failed. */
void client_link_push(struct client_link *l, struct pending *p);
void client_link_watch(struct client_link *l, struct watch *w);
void client_link_unwatch(struct client_link *l, struct watch *w);
void client_link_ready(struct client_link *l, uint32_t epoll_events);
/* Retries, idle ends, broken ones. Returns when it wants to be called again, 0 = never. */
int64_t client_link_tick(struct client_link *l, int64_t now_ms);
void client_link_flush(struct client_link *l);
/* p is over: what of its data is not sent is not; taken_back: the keeper may stop as well. */
void client_link_forget(struct client_link *l, struct pending *p, bool taken_back);
void client_link_free(struct client_link *l);

/* client.c */
struct pending *client_pend(struct keeper_client *c, struct client_link *l, char *text, int64_t timeout_ms,
                            keeper_answer *answer, void *user);
void client_arm(struct keeper_client *c, int64_t at_ms);
void client_fail(struct pending *p, const struct error *err); /* answered in the next turn */
void client_finish(struct pending *p, const json_t *ret, const struct error *err); /* answers and frees */
void client_end(struct pending *p, bool whole); /* of a transfer that was answered; frees */
void client_tell(struct keeper_client *c, struct watch *w, bool gone);
char *client_message(json_t *message); /* steals message */

#endif
