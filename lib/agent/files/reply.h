/* The reply of a call as its process writes it (process.h): u32 length, JSON, then the end. It is read as it
 * comes; nothing of it is believed but its length, which is bounded. */
#ifndef AGENT_FILES_REPLY_H
#define AGENT_FILES_REPLY_H

#include "lib/agent/loop.h"
#include "lib/base/buffer.h"
#include "lib/wire/channel.h"

struct reply {
    struct loop *loop;
    struct loop_source source; /* fd -1 = closed; owned */
    struct buffer text;
    bool sent; /* this one, or another in its place */
};
#define REPLY_INIT(of_loop)                                                                                  \
    {                                                                                                        \
        .loop = (of_loop), .source = {.fd = -1 }                                                             \
    }

void reply_open(struct reply *reply, int fd); /* taken; it closes itself when nothing more may come */
void reply_close(struct reply *reply);
void reply_clear(struct reply *reply);

/* Until it was sent. A length that no reply may have is taken for none: it is whole, and empty. */
bool reply_is_whole(const struct reply *reply);
bool reply_has_much_behind(const struct reply *reply); /* FILE_REPLY_MUCH */
void reply_send(struct reply *reply, struct channel *channel, uint32_t number);

#endif
