/* Two channels on a socket, or one whose peer a test plays by hand, and a record of all that came. */
#ifndef TESTS_PEERS_H
#define TESTS_PEERS_H

#include "lib/base/buffer.h"
#include "lib/wire/channel.h"

enum { STREAM = 7, LIMIT = 1 << 20 };

struct seen {
    uint32_t stream;
    uint8_t type, flags;
    size_t length;
};
extern struct seen seen[100000]; /* every message and piece, in order */
extern size_t seen_count;
extern struct buffer seen_data;
extern struct error err;
extern struct channel *ours, *theirs;
extern int raw; /* the peer's end, where it is played by hand; else -1 */

void start(void);      /* ours, and raw */
void start_pair(void); /* ours and theirs, greeted */
void stop(void);
void note(void *user, const struct frame *frame, const char *data,
          size_t length); /* the receiver that records */
void forget_seen(void);
int read_ours(void);
void deliver(bool grant); /* moves all that ours has queued to theirs, giving credit back where grant */
void send_raw(uint8_t type, uint8_t flags, uint32_t stream, const void *data, uint32_t length);
void send_hello(void);

#endif
