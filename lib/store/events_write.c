/* Owns what a batch may do to execs: adding one, appending its events within its limit, writing its record.
 * Knows nothing of how a batch reaches the disk (events_batch.c) or of old logs (events_prune.c). */
#include "lib/store/events_internal.h"

#include "lib/base/clock.h"
#include "lib/base/lines.h"
#include "lib/store/crc32c.h"

#define IDEMPOTENCY_US (INT64_C(86400) * 1000000)

/* ---- a new exec ---- */
/* 1 = the key was used: head is the first exec's. */
static int find_first(struct events_writer *w, const unsigned char hash[static HASH_BYTES],
                      const unsigned char digest[static HASH_BYTES], struct exec_head *head,
                      struct error *err)
{
    MDB_val value;
    struct disk_idempotency record;
    struct events_key key = key_hash(hash);
    int found = batch_get(w, &key, &value, err);
    if (found <= 0)
        return found;
    if (parse_sealed(value.mv_data, value.mv_size, &record, sizeof record) < 0)
        return writer_damaged(w, "an idempotency record", err);
    if (clock_wall_us() - record.created_us >= IDEMPOTENCY_US)
        return 0;
    if (memcmp(record.digest, digest, HASH_BYTES) != 0)
        return error_set(err, ERROR_CONFLICT, "this Idempotency-Key was used with other parameters");
    found = batch_get_head(w, record.stream, head, err);
    if (found == 0)
        return error_set(err, ERROR_CONFLICT,
                         "this Idempotency-Key was used by a command whose log is removed");
    return found;
}

static int remember_key(struct events_writer *w, const unsigned char hash[static HASH_BYTES],
                        const unsigned char digest[static HASH_BYTES], uint32_t stream, struct error *err)
{
    struct disk_idempotency record = { .stream = stream, .created_us = clock_wall_us() };
    memcpy(record.digest, digest, HASH_BYTES);
    format_seal(&record, sizeof record);
    struct events_key key = key_hash(hash),
                      age = key_aged(KEY_IDEMPOTENCY_AGE, record.created_us, hash, HASH_BYTES);
    if (batch_put(w, &key, &record, sizeof record, NULL, 0, err) < 0)
        return -1;
    return batch_put(w, &age, NULL, 0, NULL, 0, err);
}

/* Numbers are never used twice: a removed exec's events may still be there. */
int batch_allot_stream(struct events_writer *w, uint32_t *ret, struct error *err)
{
    MDB_val value;
    struct disk_meta meta;
    struct events_key key = key_kind(KEY_META);
    int found = batch_get(w, &key, &value, err);
    if (found < 0)
        return -1;
    if (found == 0 || parse_sealed(value.mv_data, value.mv_size, &meta, sizeof meta) < 0 ||
        meta.next_stream == 0)
        return writer_damaged(w, "the number of the next exec", err);
    if (meta.next_stream == UINT32_MAX)
        return error_set(err, ERROR_FULL, "this workspace has run as many commands as it can count");
    *ret = meta.next_stream++;
    format_seal(&meta, sizeof meta);
    return batch_put(w, &key, &meta, sizeof meta, NULL, 0, err);
}

int batch_put_info(struct events_writer *w, uint32_t stream, const json_t *info, struct error *err)
{
    _cleanup_free_ char *text = json_dumps(info, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!text)
        return error_set(err, ERROR_INTERNAL, "the exec's description is not JSON");
    size_t length = strlen(text);
    uint32_t crc = crc32c(0, text, length);
    struct events_key key = key_stream(KEY_INFO, stream);
    return batch_put(w, &key, &crc, sizeof crc, text, length, err);
}

int batch_put_id(struct events_writer *w, const char *id, uint32_t stream, struct error *err)
{
    MDB_val value;
    struct disk_stream record = { .stream = stream };
    struct events_key key = key_id(id);
    int found = batch_get(w, &key, &value, err);
    if (found != 0)
        return found < 0 ? -1 : error_set(err, ERROR_CONFLICT, "%s exists", id);
    format_seal(&record, sizeof record);
    return batch_put(w, &key, &record, sizeof record, NULL, 0, err);
}

static int put_head(struct events_writer *w, const struct exec_head *head, struct error *err)
{
    unsigned char value[DISK_HEAD_SIZE];
    struct events_key key = key_stream(KEY_HEAD, head->stream);
    format_head(head, value);
    return batch_put(w, &key, value, sizeof value, NULL, 0, err);
}

static int add_exec(struct events_writer *w, struct exec_head *head, const json_t *info, struct error *err)
{
    if (batch_allot_stream(w, &head->stream, err) < 0 || batch_put_id(w, head->id, head->stream, err) < 0 ||
        batch_put_info(w, head->stream, info, err) < 0)
        return -1;
    head->first_seq = 1;
    head->last_seq = head->exit_seq = 0;
    head->log_bytes = head->dropped_events = head->dropped_bytes = head->total_bytes = 0;
    memset(head->stream_bytes, 0, sizeof head->stream_bytes);
    memset(head->stream_dropped, 0, sizeof head->stream_dropped);
    memset(head->stream_lines, 0, sizeof head->stream_lines);
    memset(head->stream_lines_dropped, 0, sizeof head->stream_lines_dropped);
    head->counted = head->counted_lines = true;
    return put_head(w, head, err);
}

int events_add_exec(struct events_writer *w, struct exec_head *head, const json_t *info, const char *idem_key,
                    const char *digest, struct error *err)
{
    unsigned char hash[HASH_BYTES], digest_hash[HASH_BYTES];
    if (!id_is_valid(ID_EXEC, head->id))
        return error_set(err, ERROR_INTERNAL, "an exec needs its id");
    if (!idem_key)
        return add_exec(w, head, info, err);
    format_hash(idem_key, strlen(idem_key), hash);
    format_hash(digest ? digest : "", digest ? strlen(digest) : 0, digest_hash);
    int found = find_first(w, hash, digest_hash, head, err);
    if (found != 0)
        return found;
    if (add_exec(w, head, info, err) < 0)
        return -1;
    return remember_key(w, hash, digest_hash, head->stream, err);
}

/* ---- events ---- */
/* Output of a stream, into its bytes and its lines. */
static void count_stream(uint64_t bytes[static 2], uint64_t lines[static 2], const struct event *event)
{
    int stream = event->type == EVENT_STDERR;
    if ((event->type != EVENT_STDOUT && event->type != EVENT_STDERR) || event->flags & EVENT_LATE)
        return;
    bytes[stream] += event->length;
    if (event->data) /* of what was refused unread only the length is known */
        lines[stream] += lines_count(event->data, event->length);
}

static uint64_t retained_cost(const struct exec_head *head)
{
    return head->log_bytes + (head->last_seq + 1 - head->first_seq) * EVENT_COST;
}

static bool fits(const struct events_writer *w, const struct exec_head *head, size_t incoming)
{
    return retained_cost(head) + incoming + EVENT_COST <= (uint64_t)w->log_bytes;
}

/* Once there is an end, it stays: the exit event and an error right before it. */
static bool is_of_the_end(const struct exec_head *head, uint64_t seq, const MDB_val *value)
{
    if (head->exit_seq == 0 || seq + 1 < head->exit_seq || value->mv_size < EVENT_HEADER)
        return false;
    unsigned type = ((const unsigned char *)value->mv_data)[4];
    return type != EVENT_STDOUT && type != EVENT_STDERR;
}

/* 1 = the oldest went; 0 = it must stay. */
static int drop_oldest(struct events_writer *w, struct exec_head *head, struct error *err)
{
    MDB_val value;
    struct events_key key = key_event(head->stream, head->first_seq);
    int found = batch_get(w, &key, &value, err);
    if (found < 0)
        return -1;
    if (found == 0)
        return writer_damaged(w, "the oldest event of a log", err);
    if (is_of_the_end(head, head->first_seq, &value))
        return 0;
    uint64_t length = value.mv_size > EVENT_HEADER ? value.mv_size - EVENT_HEADER : 0;
    if (value.mv_size >= EVENT_HEADER) {
        const unsigned char *header = value.mv_data;
        const struct event gone = { .type = header[4],
                                    .flags = header[5],
                                    .data = (const char *)header + EVENT_HEADER,
                                    .length = length };
        count_stream(head->stream_dropped, head->stream_lines_dropped, &gone);
    }
    if (batch_delete(w, &key, err) < 0)
        return -1;
    head->first_seq++;
    head->log_bytes -= length < head->log_bytes ? length : head->log_bytes;
    head->dropped_events++;
    head->dropped_bytes += length;
    return 1;
}

/* 1 = there is room (or nothing else is left), 0 = only the end is left. */
static int make_room(struct events_writer *w, struct exec_head *head, size_t incoming, struct error *err)
{
    while (!fits(w, head, incoming) && head->first_seq <= head->last_seq) {
        int dropped = drop_oldest(w, head, err);
        if (dropped <= 0)
            return dropped;
    }
    return 1;
}

int batch_put_event(struct events_writer *w, uint32_t stream, uint64_t seq, const struct event *event,
                    struct error *err)
{
    unsigned char header[EVENT_HEADER];
    struct events_key key = key_event(stream, seq);
    bool is_last = stream >= w->last_stream;
    format_event(event, header);
    if ((is_last ? batch_append : batch_put)(w, &key, header, sizeof header, event->data, event->length,
                                             err) < 0)
        return -1;
    if (is_last)
        w->last_stream = stream;
    return 0;
}

static int store_event(struct events_writer *w, struct exec_head *head, struct event *event,
                       struct error *err)
{
    if (batch_put_event(w, head->stream, head->last_seq + 1, event, err) < 0)
        return -1;
    event->seq = ++head->last_seq;
    head->log_bytes += event->length;
    head->total_bytes += event->length;
    count_stream(head->stream_bytes, head->stream_lines, event);
    if (event->type == EVENT_EXIT && head->exit_seq == 0)
        head->exit_seq = event->seq;
    return 0;
}

void events_refuse(struct exec_head *head, struct event *event)
{
    event->seq = 0;
    head->total_bytes += event->length;
    head->dropped_bytes += event->length;
    head->dropped_events++;
    count_stream(head->stream_bytes, head->stream_lines, event);
    count_stream(head->stream_dropped, head->stream_lines_dropped, event);
}

int events_append(struct events_writer *w, struct exec_head *head, struct event *event, struct error *err)
{
    if (event->length > EVENT_DATA_MAX)
        abort();
    struct exec_head next = *head;
    int room = make_room(w, &next, event->length, err);
    if (room < 0)
        return -1;
    if (room == 0 && (event->flags & EVENT_LATE)) /* it would push the end out */
        events_refuse(&next, event);
    else if (store_event(w, &next, event, err) < 0)
        return -1;
    *head = next;
    return 0;
}

/* For prune; the first word of an age's rest is the stream. */
int batch_put_age(struct events_writer *w, uint32_t stream, int64_t finished_us, struct error *err)
{
    MDB_val value;
    struct events_key first = key_event(stream, stream);
    struct events_key age = key_aged(KEY_FINISHED, finished_us, first.bytes, 4);
    int found = batch_get(w, &age, &value, err);
    return found != 0 ? (found < 0 ? -1 : 0) : batch_put(w, &age, NULL, 0, NULL, 0, err);
}

int events_put_exec(struct events_writer *w, const struct exec_head *head, struct error *err)
{
    MDB_val value;
    struct events_key key = key_stream(KEY_HEAD, head->stream);
    int found = batch_get(w, &key, &value, err);
    if (found < 0)
        return -1;
    if (found == 0 && !exec_state_is_terminal(head->state)) /* none that runs is pruned */
        return writer_damaged(w, "the record of an exec", err);
    if (found == 0)
        return error_set(err, ERROR_NOT_FOUND, "exec %s has no log any more", head->id);
    if (put_head(w, head, err) < 0)
        return -1;
    if (!exec_state_is_terminal(head->state) || head->finished_us <= 0)
        return 0;
    return batch_put_age(w, head->stream, head->finished_us, err);
}
