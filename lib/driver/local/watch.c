/* Samples /proc: the cheap sum (RSS counts shared pages for each process, so it is never too small) and only
 * above the limit the exact one (PSS). The next sample comes when memory filled at full speed could have
 * reached the limit. Above it: where a few large processes are the reason, these are ended; else the largest
 * sessions, whole - a command is one - because many hogs ended one by one keep the machine busy for a quarter
 * of a minute. When that does not help for half a second, all go. Ends by pidfd. Knows no cgroup. */
#include "lib/driver/local/watch.h"

#include "lib/base/clock.h"
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
#define OVER_ENDS_ALL 25
#define FEW           4
#define SPARED_BYTES  (4 << 20)
#define ENDING_MS     1000 /* how long an ended process is given to let go of its memory */

struct member {
    pid_t pid, session;
    int64_t bytes;
    bool spared; /* the agent, and what it has beside a command to look after it */
};
struct tree {
    size_t count;
    struct member members[PROCESSES_MAX];
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
        t->members[t->count++] = (struct member){ .pid = (pid_t)child };
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

/* ---- those that are ending ---- */

static void forget_ended(struct watch *w, int64_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->n_ended; i++)
        if (w->ended[i].until_ms > now)
            w->ended[kept++] = w->ended[i];
    w->n_ended = kept;
}

static bool is_ending(const struct watch *w, pid_t pid)
{
    for (size_t i = 0; i < w->n_ended; i++)
        if (w->ended[i].pid == pid)
            return true;
    return false;
}

/* ---- sums ---- */

/* Breadth first; members[0] is the root. */
static int64_t gather(const struct watch *w, struct tree *t)
{
    int64_t sum = 0;
    t->count = 1;
    t->members[0] = (struct member){ .pid = w->root };
    for (size_t i = 0, direct = 1; i < t->count; i++) {
        struct member *m = &t->members[i];
        m->bytes = is_ending(w, m->pid) ? 0 : resident(m->pid);
        m->spared = i < direct && m->bytes < SPARED_BYTES;
        sum += m->bytes;
        add_children(t, m->pid);
        if (i == 0)
            direct = t->count;
    }
    t->members[0].spared = true;
    return sum;
}

static int64_t gather_exact(struct tree *t)
{
    int64_t sum = 0;
    for (size_t i = 0; i < t->count; i++) {
        struct member *m = &t->members[i];
        m->bytes = m->bytes ? proportional(m->pid, m->bytes) : 0;
        sum += m->bytes;
    }
    return sum;
}

static int larger_first(const void *a, const void *b)
{
    int64_t x = ((const struct member *)a)->bytes, y = ((const struct member *)b)->bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* proc_pid_stat(5): fields 4 and 6. */
static bool read_stat(pid_t pid, pid_t *ret_parent, pid_t *ret_session)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    const char *end = read_small(path, text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;
    return end && sscanf(end, ") %*c %d %*d %d", ret_parent, ret_session) == 2;
}

/* Asked with a pidfd in hand: a pid used again outside the tree would have other parents. */
static bool is_below(pid_t pid, pid_t root)
{
    pid_t session;
    for (int depth = 0; depth < 64 && pid > 1; depth++) {
        if (pid == root)
            return true;
        if (!read_stat(pid, &pid, &session))
            return false;
    }
    return false;
}

/* Counted before it is done, so that who sees the end sees the count. */
static bool end_member(struct watch *w, pid_t pid)
{
    _cleanup_close_ int pidfd = process_pidfd_open(pid);
    if (pidfd < 0 || !is_below(pid, w->root))
        return false;
    atomic_fetch_add(&w->kills, 1);
    if (process_pidfd_signal(pidfd, SIGKILL)) {
        atomic_fetch_sub(&w->kills, 1);
        return false;
    }
    if (w->n_ended < WATCH_ENDED_MAX) {
        w->ended[w->n_ended].pid = pid;
        w->ended[w->n_ended++].until_ms = clock_boottime_ms() + ENDING_MS;
    }
    return true;
}

/* How many of the largest are enough; they are sorted. */
static size_t count_needed(const struct tree *t, int64_t sum, int64_t target)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count && (sum > target || !count); i++) {
        if (t->members[i].spared)
            continue;
        sum -= t->members[i].bytes;
        count++;
    }
    return count;
}

static bool end_first(struct watch *w, const struct tree *t, size_t count)
{
    bool any = false;
    for (size_t i = 0; i < t->count && count; i++) {
        if (t->members[i].spared || is_ending(w, t->members[i].pid))
            continue;
        any |= end_member(w, t->members[i].pid);
        count--;
    }
    return any;
}

struct session {
    pid_t id;
    int64_t bytes;
};

static int larger_session_first(const void *a, const void *b)
{
    int64_t x = ((const struct session *)a)->bytes, y = ((const struct session *)b)->bytes;
    return x < y ? 1 : x > y ? -1 : 0;
}

static size_t sum_sessions(struct tree *t, struct session *sessions)
{
    size_t count = 0, at;
    for (size_t i = 0; i < t->count; i++) {
        struct member *m = &t->members[i];
        pid_t parent;
        if (m->spared || !read_stat(m->pid, &parent, &m->session))
            continue;
        for (at = 0; at < count && sessions[at].id != m->session; at++)
            continue;
        if (at == count)
            sessions[count++] = (struct session){ m->session, 0 };
        sessions[at].bytes += m->bytes;
    }
    qsort(sessions, count, sizeof(*sessions), larger_session_first);
    return count;
}

static bool end_session(struct watch *w, const struct tree *t, pid_t session)
{
    bool any = false;
    for (size_t i = 0; i < t->count; i++)
        if (t->members[i].session == session && !t->members[i].spared && !is_ending(w, t->members[i].pid))
            any |= end_member(w, t->members[i].pid);
    return any;
}

static bool end_sessions(struct watch *w, struct tree *t, int64_t sum, int64_t target)
{
    bool any = false;
    _cleanup_free_ struct session *sessions = xcalloc(t->count, sizeof(*sessions));
    size_t count = sum_sessions(t, sessions);
    for (size_t i = 0; i < count && (sum > target || !any); i++) {
        any |= end_session(w, t, sessions[i].id);
        sum -= sessions[i].bytes;
    }
    return any;
}

/* At least one goes, where there is one. */
static bool end_largest(struct watch *w, struct tree *t, int64_t sum, int64_t target)
{
    qsort(t->members, t->count, sizeof(t->members[0]), larger_first);
    size_t needed = count_needed(t, sum, target);
    return needed <= FEW ? end_first(w, t, needed) : end_sessions(w, t, sum, target);
}

static int64_t next_target(struct watch *w)
{
    return ++w->over >= OVER_ENDS_ALL ? -1 : w->limit - w->limit / 8;
}

static int interval_for(int64_t room)
{
    int64_t ms = room / FILL_PER_MS;
    return (int)(ms < INTERVAL_MIN ? INTERVAL_MIN : ms > INTERVAL_MAX ? INTERVAL_MAX : ms);
}

int watch_sample(struct watch *w, bool *ret_killed)
{
    _cleanup_free_ struct tree *tree = xmalloc(sizeof(*tree));
    forget_ended(w, clock_boottime_ms());
    int64_t rss = gather(w, tree);
    if (rss <= w->limit || rss <= w->allowed_rss) {
        w->over = 0;
        return interval_for(rss <= w->limit ? w->limit - rss : 0);
    }
    int64_t sum = gather_exact(tree);
    if (sum <= w->limit) {
        w->over = 0;
        w->allowed_rss =
            rss +
            (w->limit - sum); /* the exact sum cannot pass the limit before this one has grown by as much */
        return INTERVAL_MIN;
    }
    w->allowed_rss = 0;
    *ret_killed = end_largest(w, tree, sum, next_target(w));
    return INTERVAL_OVER;
}

void watch_relieve(struct watch *w)
{
    _cleanup_free_ struct tree *tree = xmalloc(sizeof(*tree));
    forget_ended(w, clock_boottime_ms());
    w->over = w->n_ended ? w->over : 0;
    gather(w, tree);
    int64_t sum = gather_exact(tree), target = next_target(w);
    if (!w->n_ended || sum > target) /* else what was ended is on its way out, and nobody else need go */
        end_largest(w, tree, sum, target);
}
