/* Attempts on what is the host's: its sockets, its users, its devices and settings. */
#include "tests/http/hostile.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- sockets of the host ---- */

static bool connects(int type, const char *name, bool abstract)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path + abstract, sizeof address.sun_path - 1, "%s", name);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)abstract + strlen(name));
    bool done =
        fd >= 0 && (!connect(fd, (struct sockaddr *)&address, length) ||
                    (type == SOCK_DGRAM && sendto(fd, "x", 1, 0, (struct sockaddr *)&address, length) == 1));
    close(fd);
    return done && got("connected to %s", name);
}

bool abstract_sockets(void)
{
    char datagram[200];
    snprintf(datagram, sizeof datagram, "%s-datagram", abstract_name);
    return connects(SOCK_STREAM, abstract_name, true) || connects(SOCK_DGRAM, datagram, true);
}

bool path_sockets(void)
{
    return connects(SOCK_STREAM, socket_path, false);
}

/* ---- privileges ---- */

bool becomes_another(void)
{
    return (!setuid(0) || !setgid(0) || !setgroups(0, NULL) || !setresuid(0, 0, 0) ||
            !setreuid(65534, 65534) || !setuid(33) || setfsuid(0) != 1000 || setfsuid(-1) != 1000 ||
            !geteuid() || !prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0)) &&
           got("uid %d", geteuid());
}

bool mounts_let_in(void)
{
    char line[2000];
    FILE *file = fopen("/proc/self/mountinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        char place[300], options[300];
        if (sscanf(line, "%*s %*s %*s %*s %299s %299s", place, options) != 2)
            return got("unreadable: %s", line);
        bool device = !strncmp(place, "/dev/", 5) && strcmp(place, "/dev/shm");
        if (!strstr(options, "nosuid") || (!device && !strstr(options, "nodev")))
            return got("%s: %s", place, options);
    }
    return !file && got("no mountinfo");
}

bool opens_devices(void)
{
    static const char *const names[] = {
        "/dev/mem",    "/dev/kmem",         "/dev/port",           "/dev/kmsg",    "/dev/sda",
        "/dev/vda",    "/dev/kvm",          "/dev/fuse",           "/dev/net/tun", "/dev/userfaultfd",
        "/dev/loop0",  "/dev/loop-control", "/dev/tty1",           "/dev/uinput",  "/dev/vhost-net",
        "/proc/kcore", "/proc/kmsg",        "/proc/sysrq-trigger", "/dev/console"
    };
    for (size_t i = 0; i < COUNT(names); i++)
        if (opens(names[i], O_RDWR | O_NONBLOCK | O_NOCTTY) ||
            opens(names[i], O_RDONLY | O_NONBLOCK | O_NOCTTY))
            return got("%s", names[i]);
    return false;
}

/* A file with the bits set is run by its owner, who is nobody else. */
bool set_user_bits(void)
{
    if (system(
            "cp /usr/bin/id /workspace/id && chmod 6755 /workspace/id && /workspace/id -u | grep -qx 1000") !=
        0)
        return got("id of a copy");
    if (!chown("/workspace/id", 0, 0))
        return got("given to root");
    unlink("/workspace/id");
    return false;
}

static bool any_setting(const char *directory, int depth)
{
    bool found = false;
    DIR *list = opendir(directory);
    for (struct dirent *entry; list && !found && (entry = readdir(list));) {
        char path[1000];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%.600s/%s", directory, entry->d_name);
        int fd = entry->d_type == DT_DIR ? -1 : open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        found =
            fd >= 0 ? got("%s", path) : entry->d_type == DT_DIR && depth < 9 && any_setting(path, depth + 1);
    }
    if (list)
        closedir(list);
    return found;
}

bool kernel_settings(void)
{
    return any_setting("/proc/sys", 0);
}

bool network_of_the_host(void)
{
    struct ifreq request = { .ifr_name = "lo" };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return !ioctl(fd, SIOCSIFFLAGS, &request) && got("lo is down");
}
