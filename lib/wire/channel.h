/* One peer on one stream socket, non-blocking: frames in, frames out, control before bulk, bulk round-robin
 * over streams, credit for each stream and direction. It owns its descriptor. It knows no exec, no workspace:
 * types and payloads are its users'. Not thread-safe. Memory is bounded: a peer that sends an over-long
 * message, a DATA frame without credit or a bad header is an error, and the connection is then to be dropped.
 */
#ifndef WIRE_CHANNEL_H
#define WIRE_CHANNEL_H

#include "lib/base/error.h"
#include "lib/wire/frame.h"

#include <stdbool.h>

struct channel;

/* A whole message, or a piece of DATA. data is valid during the call only. Must not free the channel: set a
 * mark and free it after channel_read returned. */
typedef void channel_receive(void *user, const struct frame *frame, const char *data, size_t length);

struct channel *channel_new(int fd);  /* takes fd (made non-blocking), queues HELLO */
void channel_free(struct channel *c); /* closes */
int channel_fd(const struct channel *c);
bool channel_is_ready(const struct channel *c); /* the peer's HELLO has come */
/* EPOLLIN and/or EPOLLOUT that it now wants. */
uint32_t channel_events(const struct channel *c);

/* Reads what is there, at most about limit bytes (fairness), calling receive for each message or piece. 0 =
 * go on, 1 = the peer closed, -1 = error. */
int channel_read(struct channel *c, size_t limit, channel_receive *receive, void *user, struct error *err);
/* Writes what is queued until EAGAIN. 0 = fine (channel_events tells whether more waits), -1 = error. A peer
 * that has closed is none: what waits is dropped, and channel_read returns 1 after all that the peer had
 * sent. */
int channel_write(struct channel *c, struct error *err);

/* Control: queued whole, split with FRAME_MORE where long; length <= FRAME_MESSAGE_MAX. */
void channel_send(struct channel *c, enum frame_type type, uint8_t flags, uint32_t stream, const void *data,
                  size_t length);
/* false = longer than FRAME_MESSAGE_MAX when encoded, nothing was queued. */
bool channel_send_json(struct channel *c, enum frame_type type, uint32_t stream, const json_t *message);
/* {"ret": ret} or, where err is not NULL, {"error": packed err}; ret may be NULL (null). What is too long
 * becomes an error. */
void channel_send_reply(struct channel *c, uint32_t stream, const json_t *ret, const struct error *err);
size_t channel_control_queued(
    const struct channel *c); /* bytes: a user that produces control for a slow peer bounds itself by this */

/* Bulk. How many bytes may be queued now: the stream's credit less what waits, at most CHANNEL_STREAM_QUEUE.
 */
#define CHANNEL_STREAM_QUEUE (256u << 10)
size_t channel_data_room(struct channel *c, uint32_t stream);
/* length <= channel_data_room(). FRAME_END and FRAME_CLOSE sent by channel_send_after_data keep their place
 * behind it (length <= FRAME_PAYLOAD_MAX). */
void channel_send_data(struct channel *c, uint8_t flags, uint32_t stream, const void *data, size_t length);
void channel_send_after_data(struct channel *c, enum frame_type type, uint8_t flags, uint32_t stream,
                             const void *data, size_t length);
/* Room directly in the stream's queue, so that read(2) needs no copy: reserve (length <= channel_data_room();
 * up to FRAME_PAYLOAD_MAX without a copy), fill, commit (0 = nothing). */
char *channel_reserve_data(struct channel *c, uint32_t stream, size_t length);
void channel_commit_data(struct channel *c, uint8_t flags, uint32_t stream, size_t length);
/* Gives the peer credit back once its DATA was used. Small grants are collected: a frame goes out per quarter
 * window. */
void channel_grant(struct channel *c, uint32_t stream, size_t bytes);
/* Forgets a stream's credit and queue (after CLOSE was sent or received); where a CLOSE waits at the end of
 * its queue, once that is written. A DATA frame that comes later makes the stream anew: who gets one of a
 * stream that it does not know forgets it again. */
void channel_forget(struct channel *c, uint32_t stream);

#endif
