/* Keys and values of an events environment, as bytes. Pure; for lib/store alone.
 *
 * One table, keys big-endian. Events are u32 stream (>= 1), u64 seq, so that a new exec's events go at the
 * end of the tree. What is not an event lies under stream 0 and a kind: 0 "m"                       what the
 * environment is: version, next stream 0 "h" stream                an exec's head 0 "w" stream a watch's head
 * 0 "n" stream what never changes of either: JSON text 0 "i" id               its stream 0 "f" finished_us
 * stream    finished execs by age 0 "x" stream                an exec that was removed: its events are yet to
 * go 0 "k" hash idempotency key (SHA-256): what it began 0 "o" created_us hash       idempotency keys by age
 * Every value but the empty ones begins with the CRC32C of the rest. */
#ifndef STORE_EVENTS_FORMAT_H
#define STORE_EVENTS_FORMAT_H

#include "lib/store/events.h"

#define EVENTS_VERSION 4  /* 2: heads count each stream's bytes; 3: and lines; 4: watches */
#define EVENT_HEADER   16 /* crc, type, flags, 2 unused, wall_us */
#define HASH_BYTES     32

enum key_kind {
    KEY_META = 'm',
    KEY_HEAD = 'h',
    KEY_WATCH = 'w',
    KEY_INFO = 'n',
    KEY_ID = 'i',
    KEY_FINISHED = 'f',
    KEY_REMOVED = 'x',
    KEY_IDEMPOTENCY = 'k',
    KEY_IDEMPOTENCY_AGE = 'o',
};

struct events_key {
    size_t size;
    unsigned char bytes[64];
};
struct events_key key_event(uint32_t stream, uint64_t seq);
struct events_key key_kind(enum key_kind kind);
struct events_key key_stream(enum key_kind kind, uint32_t stream);
struct events_key key_id(const char *id); /* an exec's or a watch's */
struct events_key key_hash(const unsigned char hash[static HASH_BYTES]);
struct events_key key_aged(enum key_kind kind, int64_t wall_us, const void *rest, size_t length);
/* What a key is: false where it is none of ours. kind 0 = an event. */
struct events_key_parts {
    int kind;
    uint32_t stream;
    uint64_t seq;    /* of an event */
    int64_t wall_us; /* of an aged key */
    const unsigned char *rest;
    size_t rest_length;
};
bool key_parse(const void *data, size_t size, struct events_key_parts *ret);

/* SHA-256 as bytes. */
void format_hash(const void *data, size_t length, unsigned char hash[static HASH_BYTES]);

/* Values. decode: -1 where the bytes are not a sound value (length, CRC, ranges): nothing of them is used. */
void format_event(const struct event *event, unsigned char header[static EVENT_HEADER]);
int parse_event(const void *data, size_t size, uint64_t seq, struct event *ret);

#define DISK_HEAD_SIZE   432
#define DISK_HEAD_SIZE_1 368 /* version 1, still read: it did not count streams */
#define DISK_HEAD_SIZE_2 400 /* version 2, still read: it did not count lines */
void format_head(const struct exec_head *head, unsigned char value[static DISK_HEAD_SIZE]);
int parse_head(const void *data, size_t size, struct exec_head *ret);

#define DISK_WATCH_SIZE 304
struct watch_head;
void format_watch(const struct watch_head *head, unsigned char value[static DISK_WATCH_SIZE]);
int parse_watch(const void *data, size_t size, struct watch_head *ret);

struct disk_meta {
    uint32_t crc, version, next_stream, unused;
};
struct disk_stream {
    uint32_t crc, stream;
};
struct disk_idempotency {
    uint32_t crc, stream;
    int64_t created_us;
    unsigned char digest[HASH_BYTES];
};
/* For values of a fixed size whose first word is the CRC. */
void format_seal(void *value, size_t size);
int parse_sealed(const void *data, size_t size, void *ret, size_t expected);

#endif
