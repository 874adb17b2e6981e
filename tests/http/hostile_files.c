/* Attempts on what is not ours: files of others, what was left open, what the agent is and executes. */
#include "tests/http/hostile.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading what is not ours ---- */

static bool is_secret(const struct stat *status)
{
    char text[64];
    snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)status->st_dev,
             (unsigned long long)status->st_ino);
    for (int i = 0; i < secret_count; i++)
        if (!strcmp(secrets[i], text))
            return true;
    return false;
}

/* A file, a directory, and all that lies on the way up from it. */
static bool leads_out(const char *path)
{
    struct stat status;
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool found = !fstat(fd, &status) && is_secret(&status);
    for (int depth = 0; depth < 40 && !found && S_ISDIR(status.st_mode); depth++) {
        int up = openat(fd, "..", O_PATH | O_CLOEXEC);
        close(fd);
        fd = up;
        found = fd >= 0 && !fstat(fd, &status) && is_secret(&status);
        if (fd < 0)
            break;
    }
    if (fd >= 0)
        close(fd);
    return found && got("%s", path);
}

static bool any_below(const char *directory, const char *suffix)
{
    bool found = false;
    DIR *list = opendir(directory);
    for (struct dirent *entry; list && !found && (entry = readdir(list));) {
        char path[700];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s%s", directory, entry->d_name, suffix);
        found = leads_out(path);
    }
    if (list)
        closedir(list);
    return found;
}

bool by_proc(void)
{
    static const char *const places[] = { "root", "cwd", "exe" };
    static const char *const lists[] = { "fd", "map_files", "task" };
    bool found = false;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
        char path[300];
        for (size_t i = 0; i < COUNT(places) && !found; i++) {
            snprintf(path, sizeof path, "/proc/%s/%s", entry->d_name, places[i]);
            found = leads_out(path);
        }
        for (size_t i = 0; i < COUNT(lists) && !found; i++) {
            snprintf(path, sizeof path, "/proc/%s/%s", entry->d_name, lists[i]);
            found = any_below(path, "") || any_below(path, "/root") || any_below(path, "/cwd");
        }
    }
    if (proc)
        closedir(proc);
    return found;
}

bool by_symbolic_link(void)
{
    static const char *const targets[] = { "/proc/1/root", "/proc/1/cwd",       "/proc/self/root/..",
                                           "/../../../..", "/proc/self/cwd/..", "/var",
                                           "/root" };
    for (size_t i = 0; i < COUNT(targets); i++) {
        unlink("/workspace/way");
        if (!symlink(targets[i], "/workspace/way") &&
            (leads_out("/workspace/way") || leads_out("/workspace/way/.")))
            return true;
    }
    unlink("/workspace/way");
    return false;
}

bool by_path(void)
{
    return leads_out("/workspace/..") || leads_out("/home/workspace/../..") ||
           leads_out("/proc/self/root/../..") || leads_out("/dev/fd/0/../..") ||
           leads_out("/run/workspace/..") || leads_out("/tmp/..");
}

/* A second chroot inside the first is the classic way out: needs what nobody has here. */
bool by_chroot(void)
{
    mkdir("/tmp/chroot", 0755);
    return !chroot("/tmp/chroot") && got("chroot");
}

/* ---- what was left open ---- */

bool inherited_descriptors(void)
{
    for (int fd = 0; fd < 1024; fd++) {
        struct stat status;
        if (fstat(fd, &status))
            continue;
        if (fd > 2 || S_ISDIR(status.st_mode) || S_ISSOCK(status.st_mode))
            return got("descriptor %d, mode %o", fd, status.st_mode);
    }
    return false;
}

/* All that every visible process holds: nothing but pipes, terminals, own files. */
bool descriptors_of_everybody(void)
{
    bool found = false;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
        char path[300];
        snprintf(path, sizeof path, "/proc/%s/fd", entry->d_name);
        DIR *fds = entry->d_name[0] > '0' && entry->d_name[0] <= '9' ? opendir(path) : NULL;
        for (struct dirent *one; fds && !found && (one = readdir(fds));) {
            char target[300] = "";
            if (readlinkat(dirfd(fds), one->d_name, target, sizeof target - 1) < 0)
                continue;
            if (!strncmp(target, "socket:", 7) || strstr(target, "seccomp") || strstr(target, "/state"))
                found = got("%s/%s -> %s", path, one->d_name, target);
        }
        if (fds)
            closedir(fds);
    }
    if (proc)
        closedir(proc);
    return found;
}

/* ---- what the agent is and executes ---- */

bool replaces_programs(void)
{
    static const char *const files[] = {
        "/run/workspace/agent",        "/usr/bin/bash", "/bin/bash", "/etc/profile", "/etc/passwd",
        "/lib64/ld-linux-x86-64.so.2", "/proc/1/exe"
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        if (opens(files[i], O_WRONLY) || opens(files[i], O_RDWR | O_TRUNC) || !truncate(files[i], 0))
            return got("wrote %s", files[i]);
        if (!unlink(files[i]) || !rename("/tmp/mine", files[i]) || !link("/usr/bin/true", files[i]) ||
            !chmod(files[i], 0777))
            return got("replaced %s", files[i]);
    }
    return false;
}

bool makes_files(void)
{
    static const char *const files[] = {
        "/etc/ld.so.preload", "/run/workspace/x",    "/etc/profile.d/x", "/x",
        "/etc/bash.bashrc",   "/usr/local/bin/bash", "/dev/x",           "/home/x"
    };
    for (size_t i = 0; i < COUNT(files); i++)
        if (opens(files[i], O_WRONLY | O_CREAT))
            return got("%s", files[i]);
    if (!rename("/run/workspace", "/run/other") || !rmdir("/run/workspace"))
        return got("/run/workspace is gone");
    return false;
}
