/* Owns the room that a log keeps on the disk. The data file has blocks beyond its last page: what the next
 * batches need, and behind it what the ends of the running commands will. On a full disk the map is made as
 * small as the blocks reach, for ordinary batches without those kept for ends: LMDB itself then says of each
 * batch, exactly, whether it fits into pages that are free or have blocks. Nobody else can take them, which a
 * file that is removed in need could not promise. Knows nothing of what a batch holds.
 *
 * A file system that cannot allocate in advance keeps nothing: its full disk is told by the write. */
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/store/events_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define KEPT_BASE  (128 << 10) /* what a few small batches copy until their old pages serve again */
#define KEPT_SHARE (24 << 10)  /* one event of the largest size, and the pages that it and the end come to */
#define AHEAD      (64 << 10)  /* beyond what is needed, so that few batches allocate */
#define RETRY_MS   200
#define SMALL_MOST 2000 /* larger values take pages of their own */
#define TREE_PAGES 12   /* copies of branches, of the free list, and splits */

static int64_t page_size(struct events_writer *w)
{
    MDB_stat stat;
    mdb_env_stat(w->env, &stat);
    return stat.ms_psize;
}

static int64_t used_bytes(struct events_writer *w)
{
    MDB_envinfo info;
    mdb_env_info(w->env, &info);
    return ((int64_t)info.me_last_pgno + 1) * page_size(w);
}

static int allocate(int fd, int64_t from, int64_t to)
{
    int result;
    do
        result = fallocate(fd, FALLOC_FL_KEEP_SIZE, from, to - from);
    while (result < 0 && errno == EINTR);
    return result < 0 ? errno : 0;
}

static int data_fd(struct events_writer *w)
{
    int fd;
    return mdb_env_get_fd(w->env, &fd) == 0 ? fd : -1;
}

static void become_tight(struct events_room *room)
{
    room->tight = true;
    room->retry_ms = clock_boottime_ms() + RETRY_MS;
}

/* Blocks up to there, and some more where they can be had. */
static bool reach(struct events_writer *w, int64_t to)
{
    struct events_room *room = &w->room;
    if (room->off || to <= room->allocated)
        return true;
    int result = allocate(data_fd(w), room->allocated, to + AHEAD);
    if (result == 0)
        room->allocated = to + AHEAD;
    else if ((result = allocate(data_fd(w), room->allocated, to)) == 0)
        room->allocated = to;
    room->off = result != 0 && result != ENOSPC && result != EDQUOT;
    if (room->off)
        log_debug("events: no room is kept for ends: %s", error_errno_name(result));
    return result == 0 || room->off;
}

static bool reach_or_tighten(struct events_writer *w, int64_t to)
{
    if (reach(w, to))
        return true;
    become_tight(&w->room);
    return false;
}

/* ---- the limit ---- */
static int64_t limit_of(struct events_writer *w)
{
    const struct events_room *room = &w->room;
    int64_t limit = room->allocated - (room->for_ends ? 0 : room->kept), used = used_bytes(w);
    return limit > used ? limit : used;
}

static void set_map(struct events_writer *w, int64_t bytes)
{
    MDB_envinfo info;
    mdb_env_info(w->env, &info);
    if ((int64_t)info.me_mapsize != bytes)
        mdb_env_set_mapsize(w->env, (size_t)bytes);
}

static void lift(struct events_writer *w)
{
    if (w->room.whole_map > 0)
        set_map(w, w->room.whole_map);
    w->room.whole_map = 0;
}

/* No transaction is open. LMDB does not store a smaller size, so that nobody else hears of it. */
static void limit(struct events_writer *w)
{
    MDB_envinfo info;
    int64_t bytes = limit_of(w);
    mdb_env_info(w->env, &info);
    int64_t whole = w->room.whole_map > 0 ? w->room.whole_map : (int64_t)info.me_mapsize;
    if (bytes >= whole) {
        lift(w);
        return;
    }
    w->room.whole_map = whole;
    set_map(w, bytes);
}

static void limit_or_lift(struct events_writer *w)
{
    if (w->room.tight)
        limit(w);
    else
        lift(w);
}

bool room_is_limit(const struct events_writer *w)
{
    return w->room.whole_map > 0;
}

int room_full(struct error *err)
{
    return error_set(err, ERROR_FULL, "write to the log: the disk is full");
}

/* ---- batches ---- */
void room_begin(struct events_writer *w, bool for_ends)
{
    struct events_room *room = &w->room;
    room->for_ends = for_ends;
    room->pages = TREE_PAGES;
    if (room->tight && clock_boottime_ms() >= room->retry_ms &&
        reach_or_tighten(w, used_bytes(w) + room->kept))
        room->tight = false;
    limit_or_lift(w);
}

void room_count(struct events_writer *w, size_t value_size)
{
    w->room.pages += value_size <= SMALL_MOST ? 1 : (int64_t)(value_size + 16 + 4095) / 4096;
}

/* How far the batch may come. */
static int64_t batch_end(struct events_writer *w)
{
    const struct events_room *room = &w->room;
    return used_bytes(w) + room->pages * page_size(w) + (room->for_ends ? 0 : room->kept);
}

bool room_secure(struct events_writer *w)
{
    return w->room.tight || reach_or_tighten(w, batch_end(w));
}

void room_limit(struct events_writer *w)
{
    limit(w);
}

/* One more page: a batch that did not fit into what is allocated was counted too low. */
bool room_widen(struct events_writer *w)
{
    int64_t end = batch_end(w), least = w->room.allocated + page_size(w);
    if (!reach_or_tighten(w, end > least ? end : least))
        return false;
    if (!w->room.for_ends || w->room.off)
        w->room.tight = false;
    limit_or_lift(w);
    return true;
}

/* ---- the writer's life ---- */
/* From the beginning on, so that no hole is left that would want a block later. Where that cannot be had, the
 * file still has what it was given before. */
void room_open(struct events_writer *w)
{
    struct stat st;
    w->room = (struct events_room){ .kept = KEPT_BASE };
    if (reach_or_tighten(w, used_bytes(w) + KEPT_BASE))
        return;
    if (fstat(data_fd(w), &st) == 0)
        w->room.allocated = (int64_t)st.st_blocks * 512;
}

int events_keep_room(struct events_writer *w, size_t ends, struct error *err)
{
    struct events_room *room = &w->room;
    room->kept = KEPT_BASE + (int64_t)ends * KEPT_SHARE;
    int64_t wanted = used_bytes(w) + room->kept;
    if (room->off || wanted <= room->allocated)
        return 0;
    if (room->tight && clock_boottime_ms() < room->retry_ms)
        return room_full(err);
    return reach_or_tighten(w, wanted) ? 0 : room_full(err);
}

/* Of a log without a writer all ends are told. */
void room_close(struct events_writer *w)
{
    struct stat st;
    if (w->room.allocated > 0 && fstat(w->sync_fd, &st) == 0 && st.st_size < w->room.allocated &&
        ftruncate(w->sync_fd, st.st_size) < 0)
        log_debug("events: cannot give room back: %s", error_errno_name(errno));
}
