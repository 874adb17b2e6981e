/* One workspace's logs: the LMDB environment <state_dir>/events/<ws>/, written by its keeper alone (or, with
 * the keeper dead, by the warden under the workspace's lock), opened read-only by workers. Exec records and
 * their events change in one transaction. MDB_NOSYNC, flushed each second by events_writer_flush (also the
 * first one, which makes the marker durable) and on close; a marker file with the boot id stands while a
 * writer has it open.
 *
 * Key of an event: u32 stream + u64 seq, big-endian. Value: CRC32C of the rest, type, flags, microseconds
 * (wall), raw bytes. */
#ifndef STORE_EVENTS_H
#define STORE_EVENTS_H

#include "lib/base/error.h"
#include "lib/base/ids.h"

#include <stdbool.h>
#include <stdint.h>

#define EVENT_DATA_MAX    16336 /* raw bytes, so that header and data are 4 pages of LMDB */
#define EVENT_COST        40    /* what an event takes in the map beside its data */
#define EVENT_ENCODED_MAX 40000 /* utf8_json_size of the data, and its base64 where it is not UTF-8 */
#define EVENT_ENCODED_BOTH_MAX                                                                               \
    88000 /* that and utf8_json_size_twice together: MCP shows an event twice, in 90,000 characters */

enum event_type {
    EVENT_STATUS = 1,
    EVENT_STDOUT,
    EVENT_STDERR,
    EVENT_ERROR,
    EVENT_EXIT,
    /* of watches (watches.h) */
    EVENT_UNKNOWN,
    EVENT_ACCESS,
    EVENT_CREATE,
    EVENT_MODIFY,
    EVENT_REMOVE,
    EVENT_OVERFLOW,
    EVENT_TYPES
};
enum event_flag {
    EVENT_LATE = 1,
    EVENT_BINARY = 2, /* data is not valid UTF-8 */
    EVENT_FOLDER = 4,
    EVENT_MOVED = 8 /* both names are known: data is the path, NUL, the other one */
};

struct event {
    uint64_t seq;
    enum event_type type;
    unsigned flags;
    int64_t wall_us;
    const char *data; /* stdout, stderr: bytes; error: text; status, exit: a JSON object's members, e.g.
                         "state":"running","pid":7; of watches: a path's bytes */
    size_t length;
};

enum exec_state { EXEC_STARTING, EXEC_RUNNING, EXEC_FINISHED, EXEC_CANCELLED, EXEC_FAILED };
const char *exec_state_name(enum exec_state state);
bool exec_state_is_terminal(enum exec_state state);

/* The part of an exec's record that changes, fixed size on disk. */
struct exec_head {
    char id[ID_SIZE];
    uint32_t stream; /* the exec's number in this environment, also its order */
    enum exec_state state;
    bool has_returncode, timed_out, oom_killed, cancel_requested, waiting_for_input, pty, stdin_closed;
    int returncode;                                          /* Python style: -15 for TERM */
    int signal;                                              /* that ended it; 0 = none */
    int32_t pid, pgid;                                       /* inside the sandbox; 0 = not yet */
    int64_t created_us, started_us, finished_us, updated_us; /* wall; 0 = not yet */
    int64_t duration_ms;
    uint64_t first_seq, last_seq, exit_seq; /* retained window; exit_seq 0 = no final event yet */
    uint64_t log_bytes, dropped_events, dropped_bytes, total_bytes;
    /* What stdout [0] and stderr [1] wrote before the end (late output is not in it), and how much of that
     * was dropped. Right where `counted` is true: it is false for an exec that was begun by a program which
     * did not count yet. */
    uint64_t stream_bytes[2], stream_dropped[2];
    bool counted;
    /* The same for line ends; right where `counted_lines` is true. */
    uint64_t stream_lines[2], stream_lines_dropped[2];
    bool counted_lines;
    char reason[200]; /* failed: errno name and text, or "lost: ..." */
};

/* ---- writer ---- */
struct events_writer;
struct events_options {
    const char *state_dir, *workspace_id;
    int64_t map_bytes; /* first size; doubled when full */
    int64_t log_bytes; /* kept for each exec */
};
/* A marker of another boot makes a child process verify every value under a deadline; a damaged environment
 * is set aside (renamed) with a loud log line and a new one made. lock.mdb is allocated in full first: a full
 * disk is ERROR_FULL, never SIGBUS. */
struct events_writer *events_writer_open(const struct events_options *options, struct error *err);
void events_writer_close(struct events_writer *w); /* flushes, removes the marker */
/* Without waiting for the disk, for logs that are to be thrown away: the marker stays. */
void events_writer_drop(struct events_writer *w);
/* What it has read makes no sense: it is closed so that the next one verifies. */
bool events_writer_is_damaged(const struct events_writer *w);
/* Sets the environment aside, as opening does with a damaged one, and goes on with a new one. */
int events_writer_start_anew(struct events_writer *w, const char *why, struct error *err);
/* mdb_env_sync: may take long, may be called from another thread while the owner writes. */
int events_writer_flush(struct events_writer *w, struct error *err);

/* A batch is one write transaction: begin, any number of the calls below, commit. At MDB_MAP_FULL the map is
 * doubled and the batch replayed inside; ERROR_FULL when the disk is full: nothing of the batch is there, the
 * writer is usable, try again later. Heads belong to the caller: after a commit that failed it goes back to
 * the copies it had at begin. A call that failed within a batch: abort it. */
int events_begin(struct events_writer *w, struct error *err);
/* The same for a batch that tells an end, or makes room: on a full disk it may use what is kept back there.
 */
int events_begin_end(struct events_writer *w, struct error *err);
/* From now on room on the disk is kept for the ends of that many execs, each with that much output, its
 * events' cost counted. ERROR_FULL where there is not so much. Not within a batch. */
#define EVENTS_END_OUTPUT (16u << 10)
int events_keep_room(struct events_writer *w, size_t ends, struct error *err);
int events_commit(struct events_writer *w, struct error *err);
void events_abort(struct events_writer *w);
/* New exec: allots head->stream; info = what never changes: {command, workdir, timeout_seconds, rows, cols,
 * stdin, merge_stderr, ...}; idem_key NULL or "principal\nkey"; a key used within a day: returns 1 and fills
 * head with the first exec's (digest is compared: ERROR_CONFLICT where it differs). */
int events_add_exec(struct events_writer *w, struct exec_head *head, const json_t *info, const char *idem_key,
                    const char *digest, struct error *err);
/* Appends; sets event->seq = ++head->last_seq, the byte counts and, at an exit event, exit_seq; drops the
 * oldest beyond the limit (never status, error or exit of the end: where only the end is left to drop, a late
 * event is counted as dropped, not kept, and its seq is 0). The limit counts 40 bytes for each event beside
 * its data. data longer than EVENT_DATA_MAX is the caller's bug (abort). Call events_put_exec once for the
 * batch. */
int events_append(struct events_writer *w, struct exec_head *head, struct event *event, struct error *err);
/* Counts output as dropped that cannot be kept; its seq is 0. */
void events_refuse(struct exec_head *head, struct event *event);
int events_put_exec(struct events_writer *w, const struct exec_head *head,
                    struct error *err); /* ERROR_NOT_FOUND: it was pruned */
/* Removes finished execs whose finished_us lies before that, oldest first, and at most some per call;
 * *ret_removed counts. Makes a batch of its own where none is open. Returns 1 where more is left: call again,
 * in another batch. */
int events_prune(struct events_writer *w, int64_t finished_before_us, size_t *ret_removed, struct error *err);
/* Share of the map that live data take, 0..1; falls again when logs are pruned. */
double events_fill(struct events_writer *w);
/* How many bytes of data may be one event: cut at EVENT_DATA_MAX, at the encoded bounds, and never inside a
 * UTF-8 character (unless the bytes are none). *ret_flags gets EVENT_BINARY. A trailing incomplete character
 * is left out unless `final`. 0 = all of data is an incomplete character. Pure. */
size_t events_cut(const char *data, size_t length, bool final, unsigned *ret_flags);

/* ---- reader (workers; also the writer's own process through events_writer_reader) ---- */
struct events_cache; /* bounded, least recently used */
struct events_reader;
struct events_cache *events_cache_new(const char *state_dir, size_t capacity);
void events_cache_free(struct events_cache *c);
/* Borrowed until the next call on the cache. ERROR_NOT_FOUND: this workspace has no logs. ERROR_UNAVAILABLE:
 * the machine went down while they were open and no writer has verified them since. Never for a workspace
 * whose writer lives in this process. An environment that was replaced or removed since (inode of data.mdb)
 * is opened anew. */
struct events_reader *events_cache_get(struct events_cache *c, const char *workspace_id, struct error *err);
/* Closes those that were removed or replaced: until then their files take up disk space. To be called from
 * time to time. */
void events_cache_sweep(struct events_cache *c);
void events_cache_drop(struct events_cache *c, const char *workspace_id);
struct events_reader *events_writer_reader(struct events_writer *w); /* borrowed, lives as long as w */

int events_get_exec(struct events_reader *r, const char *exec_id, struct exec_head *ret,
                    struct error *err); /* ERROR_NOT_FOUND */
int events_get_exec_info(struct events_reader *r, const char *exec_id, json_t **ret, struct error *err);
/* Newest first (descending stream), streams below `before` (0 = from the newest), at most limit; returns how
 * many, or -1. */
long events_list_execs(struct events_reader *r, uint32_t before, struct exec_head *ret, size_t limit,
                       struct error *err);
/* Calls take for each event with seq > cursor in order until it returns false or there is none. The event's
 * data points into the map, for the call only: render, do not keep, do not block. *ret_head = the record in
 * the same snapshot. Returns 0. A CRC that does not fit is ERROR_INTERNAL and a log line. */
typedef bool events_take(void *user, const struct event *event);
int events_read(struct events_reader *r, const char *exec_id, uint64_t cursor, struct exec_head *ret_head,
                events_take *take, void *user, struct error *err);
/* Both ends of a log, in one snapshot: front gets its events from the oldest one on until it returns false
 * (it has that one too); then back gets the newest one and those before it, backwards, until it returns false
 * or front had the next. Late events are left out. Else as events_read. */
int events_read_ends(struct events_reader *r, const char *exec_id, struct exec_head *ret_head,
                     events_take *front, events_take *back, void *user, struct error *err);
/* Removes <state_dir>/events/<ws> by moving it into its trash. */
int events_discard(const char *state_dir, const char *workspace_id, struct error *err);
/* Walks everything, checks CRCs and order: for doctor and tests. */
int events_verify(struct events_reader *r, struct error *err);

#endif
