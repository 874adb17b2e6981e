/* Owns the locks: bytes of one nameless file, each standing for a name in a folder. In the workspace itself
 * no lock would do, as a command may hold one there. */
#include "lib/agent/files/turn.h"

#include "lib/base/clock.h"
#include "lib/base/fnv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#define WAIT_MS  10000
#define SLEEP_NS 100000

int turns_open(void)
{
    return memfd_create("turns", MFD_CLOEXEC);
}

/* Names that share a byte wait for each other, no more; with so many bytes hardly any do. */
static off_t byte_of(const struct place *place)
{
    struct stat folder = { 0 };
    fstat(place->folder_fd, &folder);
    uint64_t hash = fnv_mix(FNV_BEGIN, &folder.st_dev, sizeof folder.st_dev);
    hash = fnv_mix(hash, &folder.st_ino, sizeof folder.st_ino);
    return (off_t)(fnv_mix(hash, place->name, strlen(place->name)) >> 2);
}

static int take(int turns, off_t byte, const char *path, struct error *err)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
    const struct timespec pause = { .tv_nsec = SLEEP_NS };
    int64_t until = clock_boottime_ms() + WAIT_MS;
    while (fcntl(turns, F_SETLK, &lock) < 0) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return path_fail(err, errno, path, "cannot be locked");
        if (clock_boottime_ms() >= until)
            return error_set(err, ERROR_UNAVAILABLE, "'%.200s' is being changed by others: try again", path);
        nanosleep(&pause, NULL);
    }
    return 0;
}

int turn_take(int turns, const struct place *place, const char *path, struct error *err)
{
    return take(turns, byte_of(place), path, err);
}

/* In one order, so that two calls never wait for each other. */
int turn_take_both(int turns, const struct place *a, const struct place *b, const char *path,
                   struct error *err)
{
    off_t one = byte_of(a), other = byte_of(b);
    return take(turns, one < other ? one : other, path, err) < 0
               ? -1
               : take(turns, one < other ? other : one, path, err);
}

void turn_end(int turns)
{
    struct flock lock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };
    fcntl(turns, F_SETLK, &lock);
}
