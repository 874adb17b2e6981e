/* Owns the bytes of keys and values of an events environment. What it parses may be damaged: every length,
 * checksum and range is looked at before anything is believed. Knows nothing of transactions. */
#include "lib/store/events_format.h"

#include "lib/store/crc32c.h"

#include <endian.h>

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "values are stored as this machine's little-endian words");

static void put_be32(unsigned char *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, 4);
}

static void put_be64(unsigned char *at, uint64_t value)
{
    value = htobe64(value);
    memcpy(at, &value, 8);
}

static uint32_t get_be32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, 4);
    return be32toh(value);
}

static uint64_t get_be64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, 8);
    return be64toh(value);
}

/* ---- keys ---- */
struct events_key key_event(uint32_t stream, uint64_t seq)
{
    struct events_key key = { .size = 12 };
    put_be32(key.bytes, stream);
    put_be64(key.bytes + 4, seq);
    return key;
}

struct events_key key_kind(enum key_kind kind)
{
    struct events_key key = { .size = 5 };
    key.bytes[4] = (unsigned char)kind;
    return key;
}

struct events_key key_stream(enum key_kind kind, uint32_t stream)
{
    struct events_key key = key_kind(kind);
    put_be32(key.bytes + 5, stream);
    key.size = 9;
    return key;
}

struct events_key key_id(const char *id)
{
    struct events_key key = key_kind(KEY_ID);
    size_t length = strnlen(id, ID_SIZE - 1);
    memcpy(key.bytes + 5, id, length);
    key.size = 5 + length;
    return key;
}

struct events_key key_hash(const unsigned char hash[static HASH_BYTES])
{
    struct events_key key = key_kind(KEY_IDEMPOTENCY);
    memcpy(key.bytes + 5, hash, HASH_BYTES);
    key.size = 5 + HASH_BYTES;
    return key;
}

/* Times before the epoch are none that a clock of ours gives: they sort as 0. */
struct events_key key_aged(enum key_kind kind, int64_t wall_us, const void *rest, size_t length)
{
    struct events_key key = key_kind(kind);
    put_be64(key.bytes + 5, wall_us > 0 ? (uint64_t)wall_us : 0);
    if (length > 0)
        memcpy(key.bytes + 13, rest, length);
    key.size = 13 + length;
    return key;
}

static const struct key_shape {
    enum key_kind kind;
    size_t rest; /* bytes after the kind */
    bool has_stream, has_time;
} shapes[] = {
    { KEY_META, 0, false, false },
    { KEY_HEAD, 4, true, false },
    { KEY_WATCH, 4, true, false },
    { KEY_INFO, 4, true, false },
    { KEY_ID, ID_SIZE - 1, false, false },
    { KEY_FINISHED, 12, true, true },
    { KEY_REMOVED, 4, true, false },
    { KEY_IDEMPOTENCY, HASH_BYTES, false, false },
    { KEY_IDEMPOTENCY_AGE, 8 + HASH_BYTES, false, true },
};

bool key_parse(const void *data, size_t size, struct events_key_parts *ret)
{
    const unsigned char *bytes = data;
    *ret = (struct events_key_parts){ 0 };
    if (size < 5)
        return false;
    ret->stream = get_be32(bytes);
    if (ret->stream != 0) {
        ret->seq = size == 12 ? get_be64(bytes + 4) : 0;
        return ret->seq != 0;
    }
    for (size_t i = 0; i < N_ELEMENTS(shapes); i++) {
        const struct key_shape *shape = &shapes[i];
        if (bytes[4] != shape->kind || size != 5 + shape->rest)
            continue;
        ret->kind = shape->kind;
        ret->rest = bytes + 5 + (shape->has_time ? 8 : 0);
        ret->rest_length = shape->rest - (shape->has_time ? 8 : 0);
        ret->wall_us = shape->has_time ? (int64_t)get_be64(bytes + 5) : 0;
        ret->stream = shape->has_stream ? get_be32(ret->rest) : 0;
        return true;
    }
    return false;
}

void format_hash(const void *data, size_t length, unsigned char hash[static HASH_BYTES])
{
    char hex[ID_HASH_SIZE];
    id_hash(data, length, hex);
    for (size_t i = 0; i < HASH_BYTES; i++) {
        char pair[3] = { hex[2 * i], hex[2 * i + 1], 0 };
        hash[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
}

/* ---- values ---- */
void format_seal(void *value, size_t size)
{
    uint32_t crc = crc32c(0, (unsigned char *)value + 4, size - 4);
    memcpy(value, &crc, 4);
}

int parse_sealed(const void *data, size_t size, void *ret, size_t expected)
{
    uint32_t crc;
    if (size != expected)
        return -1;
    memcpy(&crc, data, 4);
    if (crc != crc32c(0, (const unsigned char *)data + 4, size - 4))
        return -1;
    memcpy(ret, data, size);
    return 0;
}

void format_event(const struct event *event, unsigned char header[static EVENT_HEADER])
{
    memset(header, 0, EVENT_HEADER);
    header[4] = (unsigned char)event->type;
    header[5] = (unsigned char)event->flags;
    memcpy(header + 8, &event->wall_us, 8);
    uint32_t crc = crc32c(0, header + 4, EVENT_HEADER - 4);
    crc = crc32c(crc, event->data, event->length);
    memcpy(header, &crc, 4);
}

int parse_event(const void *data, size_t size, uint64_t seq, struct event *ret)
{
    const unsigned char *bytes = data;
    uint32_t crc;
    if (size < EVENT_HEADER || size > EVENT_HEADER + EVENT_DATA_MAX)
        return -1;
    memcpy(&crc, bytes, 4);
    if (crc != crc32c(0, bytes + 4, size - 4) || bytes[4] < EVENT_STATUS || bytes[4] >= EVENT_TYPES)
        return -1;
    ret->seq = seq;
    ret->type = bytes[4];
    ret->flags = bytes[5];
    memcpy(&ret->wall_us, bytes + 8, 8);
    ret->data = (const char *)bytes + EVENT_HEADER;
    ret->length = size - EVENT_HEADER;
    return 0;
}

struct disk_head {
    uint32_t crc;
    uint8_t version, state;
    uint16_t flags;
    uint32_t stream;
    int32_t returncode, signal, pid, pgid;
    uint32_t unused;
    int64_t created_us, started_us, finished_us, updated_us, duration_ms;
    uint64_t first_seq, last_seq, exit_seq, log_bytes, dropped_events, dropped_bytes, total_bytes;
    char id[ID_SIZE];
    char reason[200];
    uint32_t unused2;
    /* from version 2 on */
    uint64_t stream_bytes[2], stream_dropped[2];
    /* from version 3 on */
    uint64_t stream_lines[2], stream_lines_dropped[2];
};
_Static_assert(sizeof(struct disk_head) == DISK_HEAD_SIZE, "a head has no padding");
_Static_assert(offsetof(struct disk_head, stream_bytes) == DISK_HEAD_SIZE_1, "version 1 ends there");
_Static_assert(offsetof(struct disk_head, stream_lines) == DISK_HEAD_SIZE_2, "version 2 ends there");

/* How long a head of a version is. */
static const size_t head_sizes[] = { [1] = DISK_HEAD_SIZE_1, [2] = DISK_HEAD_SIZE_2, [3] = DISK_HEAD_SIZE };

enum { HEAD_VERSION = N_ELEMENTS(head_sizes) - 1 };

enum {
    HEAD_RETURNCODE = 1,
    HEAD_TIMED_OUT = 2,
    HEAD_OOM_KILLED = 4,
    HEAD_CANCEL = 8,
    HEAD_WAITING = 16,
    HEAD_PTY = 32,
    HEAD_STDIN_CLOSED = 64,
    HEAD_COUNTED = 128,
    HEAD_COUNTED_LINES = 256,
};

static uint16_t head_flags(const struct exec_head *head)
{
    return (uint16_t)((head->has_returncode ? HEAD_RETURNCODE : 0) | (head->timed_out ? HEAD_TIMED_OUT : 0) |
                      (head->oom_killed ? HEAD_OOM_KILLED : 0) | (head->cancel_requested ? HEAD_CANCEL : 0) |
                      (head->waiting_for_input ? HEAD_WAITING : 0) | (head->pty ? HEAD_PTY : 0) |
                      (head->stdin_closed ? HEAD_STDIN_CLOSED : 0) | (head->counted ? HEAD_COUNTED : 0) |
                      (head->counted_lines ? HEAD_COUNTED_LINES : 0));
}

void format_head(const struct exec_head *head, unsigned char value[static DISK_HEAD_SIZE])
{
    struct disk_head disk = {
        .version = HEAD_VERSION,
        .state = (uint8_t)head->state,
        .flags = head_flags(head),
        .stream = head->stream,
        .returncode = head->returncode,
        .signal = head->signal,
        .pid = head->pid,
        .pgid = head->pgid,
        .created_us = head->created_us,
        .started_us = head->started_us,
        .finished_us = head->finished_us,
        .updated_us = head->updated_us,
        .duration_ms = head->duration_ms,
        .first_seq = head->first_seq,
        .last_seq = head->last_seq,
        .exit_seq = head->exit_seq,
        .log_bytes = head->log_bytes,
        .dropped_events = head->dropped_events,
        .dropped_bytes = head->dropped_bytes,
        .total_bytes = head->total_bytes,
    };
    memcpy(disk.stream_bytes, head->stream_bytes, sizeof disk.stream_bytes);
    memcpy(disk.stream_dropped, head->stream_dropped, sizeof disk.stream_dropped);
    memcpy(disk.stream_lines, head->stream_lines, sizeof disk.stream_lines);
    memcpy(disk.stream_lines_dropped, head->stream_lines_dropped, sizeof disk.stream_lines_dropped);
    memcpy(disk.id, head->id, strnlen(head->id, ID_SIZE - 1));
    memcpy(disk.reason, head->reason, strnlen(head->reason, sizeof disk.reason - 1));
    format_seal(&disk, sizeof disk);
    memcpy(value, &disk, sizeof disk);
}

static void unpack_head(const struct disk_head *disk, struct exec_head *ret)
{
    *ret = (struct exec_head){
        .stream = disk->stream,
        .state = disk->state,
        .has_returncode = disk->flags & HEAD_RETURNCODE,
        .timed_out = disk->flags & HEAD_TIMED_OUT,
        .oom_killed = disk->flags & HEAD_OOM_KILLED,
        .cancel_requested = disk->flags & HEAD_CANCEL,
        .waiting_for_input = disk->flags & HEAD_WAITING,
        .pty = disk->flags & HEAD_PTY,
        .stdin_closed = disk->flags & HEAD_STDIN_CLOSED,
        .counted = disk->flags & HEAD_COUNTED,
        .counted_lines = disk->flags & HEAD_COUNTED_LINES,
        .returncode = disk->returncode,
        .signal = disk->signal,
        .pid = disk->pid,
        .pgid = disk->pgid,
        .created_us = disk->created_us,
        .started_us = disk->started_us,
        .finished_us = disk->finished_us,
        .updated_us = disk->updated_us,
        .duration_ms = disk->duration_ms,
        .first_seq = disk->first_seq,
        .last_seq = disk->last_seq,
        .exit_seq = disk->exit_seq,
        .log_bytes = disk->log_bytes,
        .dropped_events = disk->dropped_events,
        .dropped_bytes = disk->dropped_bytes,
        .total_bytes = disk->total_bytes,
    };
    memcpy(ret->stream_bytes, disk->stream_bytes, sizeof ret->stream_bytes);
    memcpy(ret->stream_dropped, disk->stream_dropped, sizeof ret->stream_dropped);
    memcpy(ret->stream_lines, disk->stream_lines, sizeof ret->stream_lines);
    memcpy(ret->stream_lines_dropped, disk->stream_lines_dropped, sizeof ret->stream_lines_dropped);
    memcpy(ret->id, disk->id, sizeof ret->id);
    memcpy(ret->reason, disk->reason, sizeof ret->reason);
}

int parse_head(const void *data, size_t size, struct exec_head *ret)
{
    struct disk_head disk = { 0 };
    int version = HEAD_VERSION;
    while (version > 1 && head_sizes[version] != size)
        version--;
    if (parse_sealed(data, size, &disk, head_sizes[version]) < 0 || disk.version != version ||
        disk.state > EXEC_FAILED || disk.stream == 0)
        return -1;
    if (disk.id[ID_SIZE - 1] != '\0' || disk.reason[sizeof disk.reason - 1] != '\0' ||
        !id_is_valid(ID_EXEC, disk.id))
        return -1;
    if (disk.first_seq == 0 || disk.last_seq == UINT64_MAX || disk.first_seq > disk.last_seq + 1)
        return -1;
    unpack_head(&disk, ret);
    return 0;
}

/* ---- states ---- */
static const struct {
    const char *name;
    bool terminal;
} states[] = {
    [EXEC_STARTING] = { "starting", false }, [EXEC_RUNNING] = { "running", false },
    [EXEC_FINISHED] = { "finished", true },  [EXEC_CANCELLED] = { "cancelled", true },
    [EXEC_FAILED] = { "failed", true },
};

const char *exec_state_name(enum exec_state state)
{
    return states[state].name;
}

bool exec_state_is_terminal(enum exec_state state)
{
    return states[state].terminal;
}
