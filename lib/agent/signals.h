/* Signals to a command: its process group, its terminal's foreground, or all that descends from it. */
#ifndef AGENT_SIGNALS_H
#define AGENT_SIGNALS_H

#include <stdbool.h>

struct exec;

void signals_init(struct exec *exec);
/* tree: every descendant; with KILL again and again until none is left. Before the command has started it is
 * kept for then. */
void signals_send(struct exec *exec, int signal_number, bool tree);

#endif
