/* Owns the proof that an environment is sound: every key and value, every exec's window, no page both free
 * and in use. A damaged environment may crash who walks it, so the walk of one that a power cut may have hit
 * runs in a child. */
#include "lib/store/events_internal.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/process.h"
#include "lib/store/crc32c.h"
#include "lib/store/watches.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MAPS_LIMIT  (8u << 20)
#define PAGES_LIMIT (UINT64_C(1) << 30)

/* ---- the walk ---- */
struct walk {
    MDB_txn *txn;
    MDB_dbi table;
    MDB_cursor *cursor;
    unsigned char *free_pages; /* a bit for each page */
    uint64_t pages, file_pages;
    const char *map;
    size_t page_size;
    /* the stream that the walk is in */
    uint32_t stream;
    uint64_t first_seq, last_seq, bytes;
    bool counting;
    bool quick; /* events' bytes are not looked at */
};

/* Also of one that a fault has ended. */
static void walk_clear(struct walk *walk)
{
    if (walk->cursor)
        mdb_cursor_close(walk->cursor);
    free(walk->free_pages);
}

static bool is_free(const struct walk *walk, uint64_t page)
{
    return walk->free_pages[page / 8] >> (page % 8) & 1;
}

/* A record of the free list: a count, then page numbers. */
static int check_free_record(struct walk *walk, const MDB_val *value, struct error *err)
{
    size_t count;
    if (value->mv_size < sizeof count)
        return events_damaged(err, "a record of the free list");
    memcpy(&count, value->mv_data, sizeof count);
    if (count > value->mv_size / sizeof count - 1)
        return events_damaged(err, "a record of the free list");
    for (size_t i = 1; i <= count; i++) {
        size_t page;
        memcpy(&page, (const char *)value->mv_data + i * sizeof page, sizeof page);
        if (page < 2 || page >= walk->pages || is_free(walk, page))
            return events_damaged(err, "the free list");
        walk->free_pages[page / 8] |= (unsigned char)(1 << (page % 8));
    }
    return 0;
}

static int check_place(const struct walk *walk, const void *data, size_t size, struct error *err)
{
    size_t first = (size_t)((const char *)data - walk->map) / walk->page_size;
    size_t last = ((size_t)((const char *)data - walk->map) + (size ? size - 1 : 0)) / walk->page_size;
    for (size_t page = first; page <= last; page++)
        if ((const char *)data < walk->map || page >= walk->pages || page >= walk->file_pages ||
            is_free(walk, page))
            return events_damaged(err, "a value lies in a page that is free or missing");
    return 0;
}

static int find(const struct walk *walk, const struct events_key *key, MDB_val *ret)
{
    MDB_val name = { key->size, (void *)key->bytes };
    return mdb_get(walk->txn, walk->table, &name, ret);
}

static int end_of_watch(const struct walk *walk, const MDB_val *value, struct error *err)
{
    struct watch_head head;
    if (parse_watch(value->mv_data, value->mv_size, &head) < 0)
        return events_damaged(err, "the record of a watch");
    return head.base + 1 == walk->first_seq && head.next == walk->last_seq
               ? 0
               : events_damaged(err, "events are missing");
}

/* A stream's events end here: do they fill the window of its head? */
static int end_stream(struct walk *walk, struct error *err)
{
    struct events_key head_key = key_stream(KEY_HEAD, walk->stream),
                      watch_key = key_stream(KEY_WATCH, walk->stream),
                      removed_key = key_stream(KEY_REMOVED, walk->stream);
    MDB_val value;
    struct exec_head head;
    if (!walk->counting)
        return 0;
    walk->counting = false;
    int result = find(walk, &head_key, &value);
    if (result == MDB_NOTFOUND && find(walk, &watch_key, &value) == 0)
        return end_of_watch(walk, &value, err);
    if (result == MDB_NOTFOUND)
        return find(walk, &removed_key, &value) == 0
                   ? 0
                   : events_damaged(err, "events that belong to no exec and no watch");
    if (result != 0 || parse_head(value.mv_data, value.mv_size, &head) < 0)
        return events_damaged(err, "the record of an exec");
    if (head.first_seq != walk->first_seq || head.last_seq != walk->last_seq || head.log_bytes != walk->bytes)
        return events_damaged(err, "events are missing");
    return 0;
}

static bool event_is_sound(const struct walk *walk, uint64_t seq, const MDB_val *value)
{
    struct event event;
    if (walk->quick)
        return value->mv_size >= EVENT_HEADER && value->mv_size <= EVENT_HEADER + EVENT_DATA_MAX;
    return parse_event(value->mv_data, value->mv_size, seq, &event) == 0;
}

static int check_event(struct walk *walk, const struct events_key_parts *parts, const MDB_val *value,
                       struct error *err)
{
    if (walk->counting && walk->stream != parts->stream && end_stream(walk, err) < 0)
        return -1;
    if (!walk->counting) {
        walk->counting = true;
        walk->stream = parts->stream;
        walk->first_seq = parts->seq;
        walk->last_seq = parts->seq - 1;
        walk->bytes = 0;
    }
    if (parts->seq != ++walk->last_seq)
        return events_damaged(err, "a gap between events");
    if (!event_is_sound(walk, parts->seq, value))
        return events_damaged(err, "an event");
    walk->bytes += value->mv_size - EVENT_HEADER;
    return 0;
}

static bool info_is_sound(const MDB_val *value)
{
    uint32_t crc;
    if (value->mv_size < sizeof crc)
        return false;
    memcpy(&crc, value->mv_data, sizeof crc);
    return crc == crc32c(0, (const char *)value->mv_data + sizeof crc, value->mv_size - sizeof crc);
}

/* A head whose events are all missing is seen here: the walk of events would never meet its stream. */
static int check_head(struct walk *walk, const struct events_key_parts *parts, const MDB_val *value,
                      struct error *err)
{
    struct exec_head head;
    if (parse_head(value->mv_data, value->mv_size, &head) < 0 || head.stream != parts->stream)
        return events_damaged(err, "the record of an exec");
    if (head.first_seq > head.last_seq)
        return 0;
    struct events_key first = key_event(head.stream, head.first_seq);
    MDB_val event;
    return find(walk, &first, &event) == 0 ? 0 : events_damaged(err, "events are missing");
}

static int check_watch(struct walk *walk, const struct events_key_parts *parts, const MDB_val *value,
                       struct error *err)
{
    struct watch_head head;
    MDB_val event;
    if (parse_watch(value->mv_data, value->mv_size, &head) < 0 || head.stream != parts->stream)
        return events_damaged(err, "the record of a watch");
    if (head.base == head.next)
        return 0;
    struct events_key first = key_event(head.stream, head.base + 1);
    return find(walk, &first, &event) == 0 ? 0 : events_damaged(err, "events are missing");
}

static int check_record(struct walk *walk, const struct events_key_parts *parts, const MDB_val *value,
                        struct error *err)
{
    struct disk_meta meta;
    struct disk_stream stream;
    struct disk_idempotency idempotency;
    bool sound = true;
    switch ((enum key_kind)parts->kind) {
    case KEY_META:
        sound = parse_sealed(value->mv_data, value->mv_size, &meta, sizeof meta) == 0;
        break;
    case KEY_HEAD:
        return check_head(walk, parts, value, err);
    case KEY_WATCH:
        return check_watch(walk, parts, value, err);
    case KEY_INFO:
        sound = info_is_sound(value);
        break;
    case KEY_ID:
        sound = parse_sealed(value->mv_data, value->mv_size, &stream, sizeof stream) == 0;
        break;
    case KEY_IDEMPOTENCY:
        sound = parse_sealed(value->mv_data, value->mv_size, &idempotency, sizeof idempotency) == 0;
        break;
    case KEY_FINISHED:
    case KEY_REMOVED:
    case KEY_IDEMPOTENCY_AGE:
        sound = value->mv_size == 0;
        break;
    }
    return sound ? 0 : events_damaged(err, "a record");
}

static int check_pair(struct walk *walk, const MDB_val *key, const MDB_val *value, struct error *err)
{
    struct events_key_parts parts;
    if (check_place(walk, key->mv_data, key->mv_size, err) < 0 ||
        check_place(walk, value->mv_data, value->mv_size, err) < 0)
        return -1;
    if (!key_parse(key->mv_data, key->mv_size, &parts))
        return events_damaged(err, "a key");
    return parts.kind == 0 ? check_event(walk, &parts, value, err) : check_record(walk, &parts, value, err);
}

typedef int walk_pair(struct walk *walk, const MDB_val *key, const MDB_val *value, struct error *err);

static int check_free_pair(struct walk *walk, const MDB_val *key, const MDB_val *value, struct error *err)
{
    (void)key;
    return check_free_record(walk, value, err);
}

static int walk_table(struct walk *walk, MDB_dbi table, bool ordered, walk_pair *check, struct error *err)
{
    MDB_val key, value, before = { 0, NULL };
    int result = mdb_cursor_open(walk->txn, table, &walk->cursor), status = 0;
    if (result != 0)
        return environment_error(err, result, "read the log");
    while (status == 0 && (result = mdb_cursor_get(walk->cursor, &key, &value, MDB_NEXT)) == 0) {
        if (ordered && before.mv_data && mdb_cmp(walk->txn, table, &before, &key) >= 0)
            status = events_damaged(err, "keys out of order");
        else
            status = check(walk, &key, &value, err);
        before = key;
    }
    mdb_cursor_close(STEAL(walk->cursor));
    if (status == 0 && result != MDB_NOTFOUND)
        status = environment_error(err, result, "read the log");
    return status;
}

/* Where the file is mapped, which LMDB does not tell: the mapping that the first key lies in. An empty table
 * has nothing to look for. */
static int find_map(struct walk *walk, struct error *err)
{
    MDB_val key, value;
    int result = mdb_cursor_open(walk->txn, walk->table, &walk->cursor);
    if (result != 0)
        return environment_error(err, result, "read the log");
    result = mdb_cursor_get(walk->cursor, &key, &value, MDB_FIRST);
    mdb_cursor_close(STEAL(walk->cursor));
    if (result != 0)
        return result == MDB_NOTFOUND ? 0 : environment_error(err, result, "read the log");
    _cleanup_buffer_ struct buffer maps = BUFFER_INIT;
    if (io_read_file(AT_FDCWD, "/proc/self/maps", MAPS_LIMIT, &maps, err) < 0)
        return -1;
    uintptr_t place = (uintptr_t)key.mv_data, start, end, offset;
    for (char *at = (char *)buffer_text(&maps), *line; (line = strsep(&at, "\n"));)
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNxPTR, &start, &end, &offset) == 3 &&
            place >= start && place < end) {
            walk->map = (const char *)(start - offset);
            return 0;
        }
    return error_set(err, ERROR_INTERNAL, "the map of the log was not found");
}

/* Pages that the file has in full. Its last ones may be missing where they are free: they were never written.
 */
static uint64_t pages_in_file(MDB_env *env, size_t page_size)
{
    int fd;
    struct stat st;
    if (mdb_env_get_fd(env, &fd) != 0 || fstat(fd, &st) < 0)
        return 0;
    return (uint64_t)st.st_size / page_size;
}

/* LMDB's table of free pages has handle 0. */
static int walk_all(struct walk *walk, MDB_txn *txn, MDB_dbi table, struct error *err)
{
    MDB_envinfo info;
    MDB_stat stat;
    mdb_env_info(mdb_txn_env(txn), &info);
    mdb_env_stat(mdb_txn_env(txn), &stat);
    walk->txn = txn;
    walk->table = table;
    walk->pages = info.me_last_pgno + 1;
    walk->file_pages = pages_in_file(mdb_txn_env(txn), stat.ms_psize);
    walk->page_size = stat.ms_psize;
    if (walk->pages > PAGES_LIMIT)
        return events_damaged(err, "the number of pages");
    walk->free_pages = xcalloc(walk->pages / 8 + 1, 1);
    if (find_map(walk, err) < 0)
        return -1;
    if (walk_table(walk, 0, false, check_free_pair, err) < 0 ||
        walk_table(walk, table, true, check_pair, err) < 0)
        return -1;
    return end_stream(walk, err);
}

static long verify_body(struct events_reader *r, void *user, struct error *err)
{
    return walk_all(user, r->txn, r->table, err);
}

int events_verify(struct events_reader *r, struct error *err)
{
    __attribute__((cleanup(walk_clear))) struct walk walk = { 0 };
    return (int)reader_run(r, verify_body, &walk, err);
}

/* ---- in a child ---- */
/* Nobody writes: the caller holds the workspace's lock. Without locks, so that the parent's hold on lock.mdb
 * cannot be disturbed. */
static int verify_directory(const char *directory, bool quick, struct error *err)
{
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi table;
    if (mdb_env_create(&env) != 0)
        return -1;
    int result = mdb_env_open(env, directory, MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS, 0660);
    if (result == 0)
        result = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
    if (result == 0)
        result = mdb_dbi_open(txn, NULL, 0, &table);
    if (result != 0)
        return environment_error(err, result, "open the log");
    __attribute__((cleanup(walk_clear))) struct walk walk = { .quick = quick };
    return walk_all(&walk, txn, table, err);
}

/* It dies with who asked: it has the workspace's lock open. A damaged tree may be walked for ever. */
_Noreturn static void child_main(const char *directory, bool quick, int64_t time_ms, int report)
{
    const struct rlimit none = { 0, 0 };
    const rlim_t seconds = (rlim_t)(time_ms / 1000 + 2);
    const struct rlimit cpu = { seconds, seconds };
    _cleanup_error_ struct error err = ERROR_INIT;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_CPU, &cpu);
    process_reset_signals();
    char verdict = verify_directory(directory, quick, &err) == 0 ? 'k' : 'd';
    if (write(report, &verdict, 1) != 1)
        _exit(1);
    _exit(0);
}

static void end_child(pid_t pid)
{
    /* Not reaped yet, so the number is still its own. */
    _cleanup_close_ int pidfd = process_pidfd_open(pid);
    if (pidfd >= 0)
        process_pidfd_signal(pidfd, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* 'k' sound, 'd' damaged, 0 = it died, 't' = too slow. */
static char await_verdict(int report, int64_t deadline_ms)
{
    char verdict = 0;
    for (;;) {
        int64_t left = deadline_ms - clock_boottime_ms();
        struct pollfd ready = { .fd = report, .events = POLLIN };
        if (left <= 0)
            return 't';
        int count = poll(&ready, 1, (int)(left < 60000 ? left : 60000));
        if (count > 0)
            return read(report, &verdict, 1) == 1 ? verdict : 0;
    }
}

static bool judge(char verdict, bool quick)
{
    if (verdict == 'k' || (verdict == 't' && quick))
        return true;
    log_error("events: verification: %s", verdict == 'd'   ? "the log is damaged"
                                          : verdict == 't' ? "no end in time"
                                                           : "the log crashed its reader");
    return false;
}

int verify_in_child(const char *directory, bool quick, int64_t time_ms, struct error *err)
{
    int ends[2];
    int64_t deadline_ms = clock_boottime_ms() + time_ms;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "verify the log");
    _cleanup_close_ int report = ends[0], child_end = ends[1];
    pid_t pid = fork();
    if (pid < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "verify the log");
    if (pid == 0)
        child_main(directory, quick, time_ms, child_end);
    close(STEAL_FD(child_end));
    char verdict = await_verdict(report, deadline_ms);
    end_child(pid);
    return judge(verdict, quick);
}
