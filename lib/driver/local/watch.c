/* Samples /proc: the cheap sum (RSS counts shared pages for each process, so it is never too small) and only
 * above the limit the exact one (PSS). The next sample comes when memory filled at full speed could have
 * reached the limit. Above it the largest processes are ended until the rest is well below; when that does
 * not hold for some samples, all go. Ends by pidfd. Knows no cgroup. */
#include "lib/driver/local/watch.h"

#include "lib/base/memory.h"
#include "lib/base/process.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#define PROCESSES_MAX 4096
#define FILL_PER_MS   (int64_t)(4 << 20) /* bytes that two cores can touch in a millisecond */
#define INTERVAL_MIN  50
#define INTERVAL_MAX  1000
#define INTERVAL_OVER 20
#define OVER_ENDS_ALL 4

struct member {
    pid_t pid;
    int64_t bytes;
};
struct tree {
    struct member members[PROCESSES_MAX];
    size_t count;
};

static ssize_t read_small(const char *path, char *text, size_t size)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    text[length > 0 ? length : 0] = '\0';
    return length;
}

static int64_t resident(pid_t pid)
{
    char path[64], text[128];
    long long pages = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", pid);
    if (read_small(path, text, sizeof(text)) <= 0 || sscanf(text, "%*s %lld", &pages) != 1)
        return 0;
    return pages * sysconf(_SC_PAGESIZE);
}

/* Where it may not be asked for (not dumpable) the resident size stands for it. */
static int64_t proportional(pid_t pid, int64_t otherwise)
{
    char path[64], text[2048];
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
    const char *line = read_small(path, text, sizeof(text)) > 0 ? strstr(text, "\nPss:") : NULL;
    return line ? strtoll(line + strlen("\nPss:"), NULL, 10) * 1024 : otherwise;
}

static void add_children_of_thread(struct tree *t, pid_t pid, const char *thread)
{
    char path[64], text[16384], *at = text;
    snprintf(path, sizeof(path), "/proc/%d/task/%.12s/children", pid, thread);
    read_small(path, text, sizeof(text));
    for (char *end; t->count < PROCESSES_MAX; at = end) {
        long child = strtol(at, &end, 10);
        if (end == at || child <= 0)
            break;
        t->members[t->count++] = (struct member){ (pid_t)child, 0 };
    }
}

static void add_children(struct tree *t, pid_t pid)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));)
        if (isdigit((unsigned char)entry->d_name[0]))
            add_children_of_thread(t, pid, entry->d_name);
    if (threads)
        closedir(threads);
}

/* Breadth first; members[0] is the root. */
static int64_t gather(struct tree *t, pid_t root)
{
    int64_t sum = 0;
    t->count = 1;
    t->members[0] = (struct member){ root, 0 };
    for (size_t i = 0; i < t->count; i++) {
        t->members[i].bytes = resident(t->members[i].pid);
        sum += t->members[i].bytes;
        add_children(t, t->members[i].pid);
    }
    return sum;
}

static int64_t gather_exact(struct tree *t)
{
    int64_t sum = 0;
    for (size_t i = 0; i < t->count; i++) {
        t->members[i].bytes = proportional(t->members[i].pid, t->members[i].bytes);
        sum += t->members[i].bytes;
    }
    return sum;
}

static int larger_first(const void *a, const void *b)
{
    int64_t x = ((const struct member *)a)->bytes, y = ((const struct member *)b)->bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* A member's parent is checked through the pidfd's life: a pid used again outside the tree would have another
 * parent. */
static bool is_below(pid_t pid, pid_t root)
{
    for (int depth = 0; depth < 64 && pid > 1; depth++) {
        char path[64], text[512];
        int parent = 0;
        if (pid == root)
            return true;
        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        const char *end = read_small(path, text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;
        if (!end || sscanf(end, ") %*c %d", &parent) != 1)
            return false;
        pid = parent;
    }
    return false;
}

static bool end_member(pid_t pid, pid_t root)
{
    _cleanup_close_ int pidfd = process_pidfd_open(pid);
    return pidfd >= 0 && is_below(pid, root) && !process_pidfd_signal(pidfd, SIGKILL);
}

static int64_t end_largest(struct watch *w, struct tree *t, int64_t sum, int64_t target)
{
    int64_t kills = 0;
    qsort(t->members + 1, t->count - 1, sizeof(t->members[0]), larger_first);
    for (size_t i = 1; i < t->count && sum > target; i++) {
        if (end_member(t->members[i].pid, w->root)) {
            sum -= t->members[i].bytes;
            kills++;
        }
    }
    return kills;
}

static int interval_for(int64_t room)
{
    int64_t ms = room / FILL_PER_MS;
    return (int)(ms < INTERVAL_MIN ? INTERVAL_MIN : ms > INTERVAL_MAX ? INTERVAL_MAX : ms);
}

int watch_sample(struct watch *w, bool *ret_killed)
{
    static struct tree tree;
    int64_t sum = gather(&tree, w->root);
    if (sum <= w->limit || sum <= w->allowed_rss) {
        w->over = 0;
        return interval_for(sum <= w->limit ? w->limit - sum : 0);
    }
    int64_t rss = sum;
    sum = gather_exact(&tree);
    if (sum <= w->limit) {
        w->over = 0;
        w->allowed_rss =
            rss +
            (w->limit - sum); /* the exact sum cannot pass the limit before this one has grown by as much */
        return INTERVAL_MIN;
    }
    w->allowed_rss = 0;
    int64_t kills = end_largest(w, &tree, sum, ++w->over >= OVER_ENDS_ALL ? -1 : w->limit - w->limit / 8);
    w->kills += kills;
    *ret_killed = kills > 0;
    return INTERVAL_OVER;
}
