/* What the suites on a worker's side of keepers share: a client, and the keeper and the warden that it talks
 * to, whom the test plays itself on real sockets. */
#ifndef TESTS_CLIENT_CASE_H
#define TESTS_CLIENT_CASE_H

#include "lib/keeper/client.h"
#include "lib/wire/channel.h"

#define WS "ws-0123456789abcdef0123456789abcdef"
#define EX "ex-0123456789abcdef0123456789abcdef"

/* One peer: a listener, at most one connection, and what came on it. */
struct peer {
    char path[128];
    int listen_fd;
    struct channel *channel;
    struct {
        int type;
        uint32_t stream;
        char text[512];
    } got[16];
    size_t count, bytes; /* bytes: of DATA */
};

/* Of the running test. */
extern struct keeper_client *client;
extern struct peer keeper_peer, warden_peer; /* nobody listens at first */
extern int warden_calls;                     /* how often the client wanted a warden started */
void client_set_up(void);
void client_tear_down(void);

void peer_listen(struct peer *p, const char *leaf); /* "warden", a workspace's id */
void peer_hang_up(struct peer *p);
void peer_leave(struct peer *p); /* and nobody listens any more */
/* Answers a request that it got. */
void peer_reply(struct peer *p, size_t which, const char *text);
/* Lets all of them run for a while, or until a count is reached. */
void client_spin(int ms, const size_t *count, size_t until);

struct outcome {
    size_t count;
    char ret[256];
    struct error error;
};

/* user is a struct outcome. */
void client_answered(void *user, const json_t *ret, const struct error *err);
/* Its number; o is emptied first. */
uint64_t client_ask(struct outcome *o, bool start, int timeout_ms);

#endif
