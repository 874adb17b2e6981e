/* A library for the processes of a test installation: their wall clock is off by as many microseconds as a
 * file says, which CHAOS_CLOCK names. Every other clock is as it was. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t *shift_us;

__attribute__((constructor)) static void open_clock(void)
{
    const char *path = getenv("CHAOS_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    shift_us = at == MAP_FAILED ? NULL : at;
}

static int64_t shift(void)
{
    return shift_us ? atomic_load_explicit(shift_us, memory_order_relaxed) : 0;
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, id, ret);
    if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t off = shift(), us = ret->tv_nsec / 1000 + off % 1000000;
        int64_t carry = us < 0 ? -1 : us >= 1000000 ? 1 : 0;
        ret->tv_sec += off / 1000000 + carry;
        ret->tv_nsec = (us - carry * 1000000) * 1000;
    }
    return rc;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    *ret = (struct timeval){ now.tv_sec, now.tv_nsec / 1000 };
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}
