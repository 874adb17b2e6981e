/* Owns walking /proc for descendants and signalling them as one. It must not know execs; it trusts nothing
 * about how long a process lives: each may end, fork or get another parent between two looks. */
#include "lib/agent/tree.h"

#include "lib/base/memory.h"
#include "lib/base/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#define TREE_LIMIT       65536
#define TREE_STOP_ROUNDS 16

void tree_free(struct tree *tree)
{
    free(tree->nodes);
    *tree = (struct tree)TREE_INIT;
}

static void add_node(struct tree *tree, pid_t pid, pid_t parent)
{
    if (tree->count == tree->capacity) {
        tree->capacity = tree->capacity ? tree->capacity * 2 : 32;
        tree->nodes = xreallocarray(tree->nodes, tree->capacity, sizeof *tree->nodes);
    }
    tree->nodes[tree->count++] = (struct tree_node){ pid, parent };
}

/* One thread's children: decimal numbers with blanks between; a number may straddle two reads. */
static void add_children_of_thread(struct tree *tree, int task_fd, const char *thread, pid_t parent,
                                   size_t limit)
{
    char path[64], block[1024];
    snprintf(path, sizeof path, "%.32s/children", thread);
    _cleanup_close_ int fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC);
    long pid = 0;
    for (ssize_t got; fd >= 0 && (got = read(fd, block, sizeof block)) > 0;)
        for (ssize_t i = 0; i < got; i++) {
            bool digit = block[i] >= '0' && block[i] <= '9';
            if (digit && pid < 100000000)
                pid = pid * 10 + (block[i] - '0');
            else if (pid > 0 && tree->count < limit)
                add_node(tree, (pid_t)pid, parent);
            pid = digit ? pid : 0;
        }
    if (pid > 0 && tree->count < limit)
        add_node(tree, (pid_t)pid, parent);
}

static void close_directory(DIR **directory)
{
    if (*directory)
        closedir(*directory);
}

static void add_children(struct tree *tree, pid_t parent, size_t limit)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)parent);
    __attribute__((cleanup(close_directory))) DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (entry->d_name[0] != '.')
            add_children_of_thread(tree, dirfd(directory), entry->d_name, parent, limit);
}

static void keep_chosen(struct tree *tree, tree_filter *filter, void *user)
{
    size_t kept = 0;
    for (size_t i = 0; i < tree->count; i++)
        if (filter(user, tree->nodes[i].pid))
            tree->nodes[kept++] = tree->nodes[i];
    tree->count = kept;
}

void tree_walk(struct tree *tree, pid_t root, size_t limit, tree_filter *filter, void *user)
{
    tree->root = root;
    tree->count = 0;
    add_children(tree, root, limit);
    if (filter)
        keep_chosen(tree, filter, user);
    for (size_t i = 0; i < tree->count; i++)
        add_children(tree, tree->nodes[i].pid, limit);
}

/* Field 4 of /proc/PID/stat; the name before it may hold any byte, so look from its last parenthesis. */
pid_t tree_parent(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (got <= 0)
        return -1;
    text[got] = '\0';
    const char *after = strrchr(text, ')');
    int parent = -1;
    return after && sscanf(after, ") %*c %d", &parent) == 1 ? (pid_t)parent : -1;
}

/* Once the pidfd is open and the parent is still the one seen (or the root, which adopts), it is the process
 * seen: were it gone by now, the signal would find nobody. */
static void signal_node(const struct tree *tree, const struct tree_node *node, int signal_number)
{
    _cleanup_close_ int pidfd = process_pidfd_open(node->pid);
    bool without_pidfds = pidfd < 0 && (errno == ENOSYS || errno == EMFILE);
    if (pidfd < 0 && !without_pidfds)
        return;
    pid_t parent = tree_parent(node->pid);
    if (parent != node->parent && parent != tree->root)
        return;
    if (without_pidfds)
        kill(node->pid, signal_number);
    else
        process_pidfd_signal(pidfd, signal_number);
}

static void signal_all(const struct tree *tree, int signal_number)
{
    for (size_t i = 0; i < tree->count; i++)
        signal_node(tree, &tree->nodes[i], signal_number);
}

static bool is_known(const struct tree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->count; i++)
        if (tree->nodes[i].pid == pid)
            return true;
    return false;
}

/* Stops everything: again and again while new ones turn up, since what runs may fork before it is stopped. */
static void stop_all(struct tree *tree, pid_t root, tree_filter *filter, void *user)
{
    _cleanup_tree_ struct tree now = TREE_INIT;
    tree_walk(tree, root, TREE_LIMIT, filter, user);
    signal_all(tree, SIGSTOP);
    for (int round = 0; round < TREE_STOP_ROUNDS; round++) {
        size_t before = tree->count;
        tree_walk(&now, root, TREE_LIMIT, filter, user);
        for (size_t i = 0; i < now.count; i++)
            if (!is_known(tree, now.nodes[i].pid)) {
                signal_node(&now, &now.nodes[i], SIGSTOP);
                add_node(tree, now.nodes[i].pid, now.nodes[i].parent);
            }
        if (tree->count == before)
            return;
    }
}

static bool stops(int signal_number)
{
    return signal_number == SIGSTOP || signal_number == SIGTSTP || signal_number == SIGTTIN ||
           signal_number == SIGTTOU;
}

void tree_signal(pid_t root, int signal_number, tree_filter *filter, void *user)
{
    _cleanup_tree_ struct tree tree = TREE_INIT;
    if (signal_number == SIGCONT)
        tree_walk(&tree, root, TREE_LIMIT, filter, user);
    else
        stop_all(&tree, root, filter, user);
    signal_all(&tree, signal_number);
    if (!stops(signal_number))
        signal_all(&tree, SIGCONT);
}

size_t tree_kill_round(pid_t root, tree_filter *filter, void *user)
{
    _cleanup_tree_ struct tree tree = TREE_INIT;
    stop_all(&tree, root, filter, user);
    signal_all(&tree, SIGKILL);
    return tree.count;
}
