/* A long content judged in a process of its own. What reads JSON and YAML here is C code that is given
 * hostile bytes, and for some of them takes time by the square of their number: it may hang, crash or eat
 * memory there. */
#ifndef AGENT_FILES_JUDGE_H
#define AGENT_FILES_JUDGE_H

#include "lib/agent/syntax/syntax.h"

/* Bytes that need no process: what takes the square of so few has ended in a fifth of a second, and a fork
 * would take longer than all that is usual. */
enum { JUDGE_HERE = 128 << 10 };

/* syntax_check(), ended after so many seconds. What was not judged is SYNTAX_SKIPPED, and why. This process
 * must have one thread only: it is forked. */
void judge_apart(const char *path, struct bytes content, int seconds, struct syntax_verdict *ret);

#endif
