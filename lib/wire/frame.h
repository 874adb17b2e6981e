/* One framing for worker-keeper and worker-warden sockets and for the agent's channel.
 *
 * A frame: 12 bytes of header, big-endian, then the payload:
 *   u32 length (of the payload, <= FRAME_PAYLOAD_MAX), u32 stream, u8 type, u8 flags, u16 zero
 * A message larger than a payload is several frames of the same type and stream, all but the last with
 * FRAME_MORE; at most FRAME_MESSAGE_MAX bytes. FRAME_DATA is a byte stream: never joined, counted against the
 * stream's credit.
 *
 * The first frame of each side is FRAME_HELLO: "WSF1", u16 version, u16 oldest version it talks; peers one
 * version apart talk. */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include "lib/base/error.h"

#include <stdint.h>

#define FRAME_VERSION        1
#define FRAME_VERSION_OLDEST 1
#define FRAME_HEADER_SIZE    12
#define FRAME_PAYLOAD_MAX    32768
#define FRAME_MESSAGE_MAX    (4u << 20)
#define FRAME_WINDOW                                                                                         \
    (1u << 20) /* credit that each stream starts with, in each direction, in bytes of FRAME_DATA */

enum frame_type {
    FRAME_HELLO = 1,
    FRAME_CREDIT,  /* u32: further bytes of FRAME_DATA allowed on this stream, towards who receives this frame
                    */
    FRAME_REQUEST, /* JSON message; the stream is the request's number, chosen by the sender, answered by one
                      FRAME_REPLY */
    FRAME_REPLY,   /* JSON message: {"ret": ...} or {"error": error_pack()} */
    FRAME_DATA,    /* bytes; flags & FRAME_CHANNEL says which */
    FRAME_END,     /* flags & FRAME_CHANNEL: no more FRAME_DATA of that channel in this direction.
                    * Keeper -> worker, stream 0: every request that it took in is answered; what has no answer
                    * by now was not taken in */
    FRAME_CLOSE,   /* the stream's number is free again; nothing follows on it.
                    * Keeper -> worker, stream 0: it is about to end, requests wait for that */
    /* worker -> keeper, keeper -> worker */
    FRAME_SUBSCRIBE, /* payload: an exec id; the stream is the subscription's number. Answered with one
                      * FRAME_NOTIFY at once, so that a commit between the subscriber's last read and this is
                      * not missed */
    FRAME_UNSUBSCRIBE,
    FRAME_NOTIFY, /* something of that subscription was committed; may stand for several commits */
    /* keeper -> agent (the stream is the exec's) */
    FRAME_SIGNAL, /* u8 signal number, u8 tree (1: every descendant, also after exit) */
    FRAME_RESIZE, /* u16 rows, u16 cols */
    FRAME_DETACH, /* the keeper wants no more output of this exec (its log is closed): drain and discard */
    /* agent -> keeper */
    FRAME_STARTED, /* JSON {"pid": n, "pgid": n}: pids inside the sandbox; "rewritten": what runs instead */
    FRAME_FAILED,  /* JSON {"errno": "ENOENT", "message": "..."}: never started; FRAME_CLOSE follows */
    FRAME_EXIT, /* JSON {"status": wait status, "oom_killed": bool}; what was drained by then was sent before
                   it */
    FRAME_WAITING, /* u8: 1 = blocked on its input or terminal, 0 = no longer */
    FRAME_TYPE_COUNT
};
enum frame_flag {
    FRAME_MORE = 0x80,
    FRAME_LATE = 0x40,
    FRAME_CHANNEL = 0x03
}; /* channels: 0 stdin, 1 stdout, 2 stderr */

struct frame {
    uint32_t stream, length;
    uint8_t type, flags;
    const char *payload;
};

void frame_encode_header(char out[static FRAME_HEADER_SIZE], const struct frame *frame);
/* Looks at data: >0 = bytes of the whole first frame (*ret points into data); 0 = more bytes are needed; -1 =
 * not a frame. */
long frame_decode(const char *data, size_t length, struct frame *ret, struct error *err);

#endif
