/* Breaks disk, clock and sockets, and mends them again. Knows frames, but nothing of what they are about. */
#include "tests/chaos/wreck.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/wire/frame.h"
#include "tests/support/must.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define DISK_SIZE     "size=400m,mode=0700"
#define AGENT_CHANNEL 3
#define HELD_MAX      48

/* ---- disk ---- */

static char disk[64], ballast[96];
static bool is_small;

char *disk_make(const char *owner)
{
    strcpy(disk, "/tmp/wsf-chaos-XXXXXX");
    must(mkdtemp(disk) != NULL, "mkdtemp: %m");
    is_small = geteuid() == 0 && mount("chaos", disk, "tmpfs", 0, DISK_SIZE) == 0;
    const struct passwd *user = getpwnam(owner);
    if (geteuid() == 0 && user)
        must_hold(chown(disk, user->pw_uid, user->pw_gid) == 0);
    snprintf(ballast, sizeof ballast, "%s/ballast", disk);
    return disk;
}

bool disk_is_small(void)
{
    return is_small;
}

void disk_fill(void)
{
    char block[65536] = { 1 };
    _cleanup_close_ int fd = is_small ? open(ballast, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    while (fd >= 0 && write(fd, block, sizeof block) > 0)
        ;
    while (fd >= 0 && write(fd, block, 512) > 0)
        ;
}

void disk_empty(void)
{
    if (is_small)
        unlink(ballast);
}

void disk_remove(void)
{
    if (is_small)
        umount2(disk, MNT_DETACH);
    io_remove_tree(AT_FDCWD, disk, NULL);
}

/* ---- clock ---- */

static char clock_path[64];
static _Atomic int64_t *clock_us;

const char *clock_make(char *preload, char *file, size_t size)
{
    const char *library = build_path("tests/chaos/clock.so");
    if (access(library, R_OK) != 0)
        return "clock.so is not built";
    strcpy(clock_path, "/tmp/wsf-clock-XXXXXX");
    _cleanup_close_ int fd = mkostemp(clock_path, O_CLOEXEC);
    must(fd >= 0 && fchmod(fd, 0644) == 0 && ftruncate(fd, 4096) == 0, "the clock's file: %m");
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(at != MAP_FAILED, "mmap: %m");
    clock_us = at;
    snprintf(preload, size, "LD_PRELOAD=%s", library);
    snprintf(file, size, "CHAOS_CLOCK=%s", clock_path);
    return NULL;
}

void clock_shift(int64_t us)
{
    if (clock_us)
        atomic_store(clock_us, us);
}

void clock_remove(void)
{
    if (clock_path[0])
        unlink(clock_path);
}

/* ---- garbage ---- */

static int held[HELD_MAX];
static unsigned held_count;

static void hold(int fd)
{
    if (held_count == HELD_MAX)
        garbage_close();
    held[held_count++] = fd;
}

void garbage_close(void)
{
    while (held_count > 0)
        close(held[--held_count]);
}

static size_t random_bytes(char *to, size_t most, uint64_t *random)
{
    size_t length = random_between(random, 16, (unsigned)most);
    for (size_t k = 0; k < length; k++)
        to[k] = (char)random_next(random);
    return length;
}

static void send_frame(int fd, uint8_t type, uint8_t flags, uint32_t stream, const char *payload,
                       uint32_t length)
{
    char header[FRAME_HEADER_SIZE];
    struct frame f = { .stream = stream, .length = length, .type = type, .flags = flags };
    frame_encode_header(header, &f);
    if (send(fd, header, sizeof header, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE) > 0)
        send(fd, payload, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_hello(int fd)
{
    static const char hello[] = { 'W', 'S', 'F', '1', 0, FRAME_VERSION, 0, FRAME_VERSION_OLDEST };
    send_frame(fd, FRAME_HELLO, 0, 0, hello, sizeof hello);
}

static const char *send_noise(int fd, uint64_t *random)
{
    char bytes[4096];
    size_t length = random_bytes(bytes, sizeof bytes, random);
    send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    return "noise";
}

static const char *send_odd_frames(int fd, uint64_t *random)
{
    char bytes[2048];
    send_hello(fd);
    for (unsigned k = random_between(random, 1, 20); k > 0; k--) {
        size_t length = random_bytes(bytes, sizeof bytes, random);
        send_frame(fd, (uint8_t)random_below(random, FRAME_TYPE_COUNT + 2), (uint8_t)random_next(random),
                   random_below(random, 50), bytes, (uint32_t)length);
    }
    return "odd frames";
}

static const char *send_odd_requests(int fd, uint64_t *random)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        "{\"op\":1}",
        "{\"op\":\"start\"}",
        "{\"operation\":\"none\",\"in\":{}}",
        "{\"op\":\"start\",\"workspace_id\":\"ws-0\"}",
        "{\"op\":\"ping\"}",
        "nothing",
        "{\"operation\":\"sendRealtimeWorkspaceExecInput\",\"in\":{}}",
        "{\"op\":\"remove\",\"workspace_id\":\"ws-00000000000000000000000000000000\"}"
    };
    send_hello(fd);
    for (unsigned k = 0; k < 20; k++) {
        const char *text = texts[random_below(random, N_ELEMENTS(texts))];
        send_frame(fd, FRAME_REQUEST, 0, k, text, (uint32_t)strlen(text));
        send_frame(fd, FRAME_SUBSCRIBE, 0, 100 + k, "ex-00000000000000000000000000000000", 35);
    }
    return "odd requests";
}

static const char *send_endless_message(int fd, uint64_t *random)
{
    static const char zeros[FRAME_PAYLOAD_MAX];
    (void)random;
    send_hello(fd);
    for (unsigned k = 0; k < 200; k++)
        send_frame(fd, FRAME_REQUEST, FRAME_MORE, 7, zeros, sizeof zeros);
    return "an endless message";
}

static const char *send_half_a_frame(int fd, uint64_t *random)
{
    (void)random;
    send_hello(fd);
    send(fd, "\0\0\1", 3, MSG_NOSIGNAL | MSG_DONTWAIT);
    return "half a frame";
}

static const char *send_nothing(int fd, uint64_t *random)
{
    (void)fd, (void)random;
    return "nothing at all";
}

static const char *(*const garbage[])(int fd, uint64_t *random) = { send_noise,        send_odd_frames,
                                                                    send_odd_requests, send_endless_message,
                                                                    send_half_a_frame, send_nothing };

const char *garbage_to_socket(const struct instance *i, const char *leaf, uint64_t *random)
{
    unsigned which = random_below(random, N_ELEMENTS(garbage)), keep = random_below(random, 2);
    _cleanup_free_ char *path = xasprintf("%s/%s", instance_state(i), leaf);
    int fd = io_connect_unix(path, NULL);
    if (fd < 0)
        return "nobody listens";
    const char *what = garbage[which](fd, random);
    if (keep)
        hold(fd);
    else
        close(fd);
    return what;
}

const char *garbage_to_channel(const struct prey *agent, uint64_t *random)
{
    static const int hows[] = { SHUT_RD, SHUT_WR, SHUT_RDWR };
    unsigned how = random_below(random, 6);
    char bytes[2048];
    size_t length = random_bytes(bytes, sizeof bytes, random);
    _cleanup_close_ int fd = pidfd_getfd(agent->pidfd, AGENT_CHANNEL, 0);
    if (fd < 0)
        return "out of reach";
    if (how < N_ELEMENTS(hows)) {
        shutdown(fd, hows[how]);
        return "half of it closed";
    }
    return send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT) > 0 ? "noise" : "full";
}
