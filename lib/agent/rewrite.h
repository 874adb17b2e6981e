/* A helper of the sandbox, `rtk`, that may say a command in a way that writes less: asked right before the
 * command starts, by its supervisor. What it answers is hostile. */
#ifndef AGENT_REWRITE_H
#define AGENT_REWRITE_H

#include "lib/agent/launch.h"

#define REWRITE_MS      2000
#define REWRITE_MAX     4000 /* bytes of a command that it may answer with */
#define REWRITE_ENCODED 8000 /* and their size in JSON, so that they fit an event */

/* Runs `rtk rewrite COMMAND`, found by the command's own PATH, in its folder and environment: at most
 * REWRITE_MS, then it is killed. True where it ended with 0 or 3 and wrote another command; text is that
 * command then. Whatever else happens: false. The caller's SIGCHLD must be blocked. */
bool rewrite_ask(const struct launch_rules *rules, const struct launch *launch,
                 char text[static REWRITE_MAX + 1]);

#endif
