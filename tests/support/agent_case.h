/* What the suites on the agent share: one agent for each test, and commands run to their end. */
#ifndef TESTS_AGENT_CASE_H
#define TESTS_AGENT_CASE_H

#include "lib/base/clock.h"
#include "tests/support/agent_peer.h"

extern struct peer *peer; /* of the running test */
void agent_setup(void);
void agent_teardown(void);

/* Until CLOSE, with exactly one exit unless it failed to start. */
struct peer_exec *run_to_end(const char *command, const char *members);
void expect_output(const char *command, const char *members, const char *out, int code);
/* Processes whose working folder is the test's, but zombies. */
int count_left(void);
bool none_left(int timeout_ms);

#endif
