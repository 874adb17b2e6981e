/* Descendants of a process, by /proc. What was found is signalled through pidfds whose parent was checked
 * again, so that a number that was used anew in between is never hit. */
#ifndef AGENT_TREE_H
#define AGENT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tree_node {
    pid_t pid, parent;
};
struct tree {
    pid_t root;
    struct tree_node *nodes;
    size_t count, capacity;
};
#define TREE_INIT                                                                                            \
    {                                                                                                        \
        0, NULL, 0, 0                                                                                        \
    }
#define _cleanup_tree_ __attribute__((cleanup(tree_free)))

/* Chooses children of the root: those that are refused are left out with all below them. */
typedef bool tree_filter(void *user, pid_t child);

void tree_free(struct tree *tree);
/* Fills tree with root's descendants (root itself is not one), at most limit. filter may be NULL. */
void tree_walk(struct tree *tree, pid_t root, size_t limit, tree_filter *filter, void *user);
/* Stops all, sends the signal, lets them go on (unless the signal is one that stops). */
void tree_signal(pid_t root, int signal_number, tree_filter *filter, void *user);
/* Stops and kills what there is now; returns how many there were. Call until 0. */
size_t tree_kill_round(pid_t root, tree_filter *filter, void *user);
pid_t tree_parent(pid_t pid); /* -1 where it is gone */

#endif
