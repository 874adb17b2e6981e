/* The insides that the files of events share. For lib/store alone. */
#ifndef STORE_EVENTS_INTERNAL_H
#define STORE_EVENTS_INTERNAL_H

#include "lib/base/buffer.h"
#include "lib/store/environment.h"
#include "lib/store/events.h"
#include "lib/store/events_format.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define EVENTS_READERS 254
#define MARKER_NAME    "open"
#define MARKER_NEW     "open.new"

/* One environment open for reading, by one thread. The transaction and the cursor are made once, renewed for
 * each read and reset after it. */
struct events_reader {
    MDB_env *env; /* borrowed where it is the writer's */
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_dbi table;
    bool owns_env, reading;
    char workspace_id[ID_SIZE];
    /* of the cache */
    dev_t device;
    ino_t inode;
    bool suspect; /* a read failed: look at the files again before the next one */
    bool damaged; /* what it read makes no sense */
};
/* Runs body within a read transaction. What faults on the way is damage, and an error like any other. */
typedef long reader_body(struct events_reader *r, void *user, struct error *err);
long reader_run(struct events_reader *r, reader_body *body, void *user, struct error *err);
void reader_close(struct events_reader *r); /* what it owns; r itself stays */
/* Within a body. */
int reader_get(struct events_reader *r, const struct events_key *key, MDB_val *ret,
               struct error *err); /* 1 = found, 0 = not, -1 */
/* Events from seq to last, until take has enough; *ret_next = the one after those that were handed out. */
int reader_hand_out(struct events_reader *r, uint32_t stream, uint64_t seq, uint64_t last, events_take *take,
                    void *user, uint64_t *ret_next, struct error *err);
int reader_failed(struct events_reader *r, int result, struct error *err); /* by LMDB's; -1 */
int reader_damaged(struct events_reader *r, const char *what, struct error *err);

/* What the data file has on the disk (events_room.c). */
struct events_room {
    int64_t allocated; /* bytes of the file that have blocks */
    int64_t kept;      /* bytes beyond its last page that are for ends alone */
    int64_t pages;     /* that the open batch may come to */
    int64_t whole_map; /* the map's size without the limit that is in force; 0 = none is */
    int64_t retry_ms;
    bool off; /* the file system cannot */
    bool tight, for_ends;
};

struct events_writer {
    MDB_env *env;
    MDB_dbi table;
    MDB_txn *txn;          /* of the batch; NULL = none */
    struct buffer journal; /* the batch's operations, for playing them again in a larger map */
    bool failed;           /* the batch cannot be committed */
    bool damaged;          /* what it read makes no sense: the marker stays, the next writer verifies */
    uint32_t last_stream;  /* no event has a higher one */
    int64_t map_bytes, log_bytes;
    int64_t readers_checked_ms;
    char *directory; /* <state_dir>/events/<ws> */
    struct events_reader reader;
    struct events_room room;
    uint64_t written; /* bytes of batches while the marker was not durable */
    atomic_bool marker_durable;
    pthread_mutex_t sync_lock;
    int sync_fd; /* of data.mdb, so that a flush needs nothing of the environment */
};

/* The marker must reach the disk before pages of the environment do. By themselves those stay in memory for
 * seconds, so opening does not wait: the first flush, or the batch that makes it many pages, sees to it. */
int events_secure_marker(struct events_writer *w, struct error *err);

void room_open(struct events_writer *w);
void room_close(struct events_writer *w); /* gives back what nothing was written to */
void room_begin(struct events_writer *w, bool for_ends);
void room_count(struct events_writer *w, size_t value_size); /* one more operation of the batch */
/* Before the commit. False: the disk is full; the batch is to be played again within room_limit. */
bool room_secure(struct events_writer *w);
void room_limit(struct events_writer *w);
bool room_widen(struct events_writer *w); /* the batch may go further now. False: the disk is still full */
bool room_is_limit(const struct events_writer *w); /* MDB_MAP_FULL means the disk */
int room_full(struct error *err);

/* Operations of the open batch (events_batch.c). -1 = the batch failed. */
int batch_put(struct events_writer *w, const struct events_key *key, const void *head, size_t head_size,
              const void *data, size_t size, struct error *err);
int batch_append(struct events_writer *w, const struct events_key *key, const void *head, size_t head_size,
                 const void *data, size_t size, struct error *err); /* the key is the last of the table */
int batch_delete(struct events_writer *w, const struct events_key *key,
                 struct error *err); /* absent is fine */
/* 1 = there: *ret points into the map until the next operation; 0 = not there. */
int batch_get(struct events_writer *w, const struct events_key *key, MDB_val *ret, struct error *err);
/* The first key at or after from: 1 = *ret is a copy of it. */
int batch_seek(struct events_writer *w, const struct events_key *from, struct events_key *ret,
               struct error *err);
int batch_require(const struct events_writer *w, struct error *err);
int batch_get_head(struct events_writer *w, uint32_t stream, struct exec_head *ret,
                   struct error *err); /* 1, 0, -1 */
/* What execs and watches have in common (events_write.c). */
int batch_allot_stream(struct events_writer *w, uint32_t *ret, struct error *err);
int batch_put_id(struct events_writer *w, const char *id, uint32_t stream, struct error *err);
int batch_put_info(struct events_writer *w, uint32_t stream, const json_t *info, struct error *err);
int batch_put_event(struct events_writer *w, uint32_t stream, uint64_t seq, const struct event *event,
                    struct error *err);
int batch_get_watch(struct events_writer *w, uint32_t stream, struct watch_head *ret,
                    struct error *err); /* 1, 0, -1 */
int batch_put_age(struct events_writer *w, uint32_t stream, int64_t finished_us, struct error *err);

int events_damaged(struct error *err, const char *what); /* ERROR_INTERNAL and a log line */
int writer_damaged(struct events_writer *w, const char *what, struct error *err);
int writer_failed(struct events_writer *w, int result, const char *what, struct error *err); /* by LMDB's */

/* Files (events_files.c). */
char *events_directory(const char *state_dir, const char *workspace_id);
int marker_write(const char *directory, struct error *err);
int marker_sync(const char *directory, struct error *err);
void marker_remove(const char *directory);
bool marker_is_there(const char *directory);
bool marker_is_foreign(const char *directory); /* there, and of another boot: the files may be damaged */
int events_set_aside(const char *directory, const char *why, struct error *err);

/* Walks the environment in directory in a child, so that damage which crashes the walker harms nobody. 1 =
 * sound, 0 = damaged. quick: the tree, the free pages and all records, but not the checksums of events; where
 * time_ms is over first, it counts as sound. */
int verify_in_child(const char *directory, bool quick, int64_t time_ms, struct error *err);

#endif
