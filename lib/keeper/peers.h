/* The listening side of run/<ws>.sock and run/warden.sock: accepts, checks who connects, carries frames,
 * bounds what a peer that stops reading may cost, drops it. Knows frames, not what they say. */
#ifndef KEEPER_PEERS_H
#define KEEPER_PEERS_H

#include "lib/keeper/reactor.h"
#include "lib/wire/channel.h"

struct peers;
struct peer;

struct peers_handlers {
    void (*frame)(void *user, struct peer *peer, const struct frame *frame, const char *data, size_t length);
    void (*drained)(void *user, struct peer *peer); /* all that was queued is with the kernel; may be NULL */
    void (*gone)(void *user, struct peer *peer);    /* it is freed right after */
};

/* directory: whose owner is trusted, beside root and ourselves. */
struct peers *peers_listen(struct reactor *r, const char *path, const char *directory,
                           const struct peers_handlers *handlers, void *user, struct error *err);
void peers_free(struct peers *p); /* drops all */
/* No further accepts; the path is removed. */
void peers_close_listener(struct peers *p);
/* Once a turn: writes what is queued, frees who is gone. */
void peers_flush(struct peers *p);
/* A control frame to every peer. */
void peers_tell(struct peers *p, enum frame_type type, uint32_t stream);
/* Hears out once more who has sent something, so that nobody's request goes without an answer. */
void peers_read(struct peers *p);
/* Writes what is queued, until all is out or the deadline (clock_boottime_ms). */
void peers_drain(struct peers *p, int64_t deadline_ms);

struct channel *peer_channel(struct peer *p);
/* Its request gets this error. */
void peer_refuse(struct peer *p, uint32_t stream, enum error_code code, const char *text);
void peer_drop(struct peer *p); /* at the next peers_flush */

#endif
