/* The end of a test program's main: suite.h is for programs that share an installation. */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <check.h>
#include <stddef.h>

/* Runs and frees the suite, prints what failed (CK_VERBOSITY=verbose: every test); returns the exit status.
 */
int unit_run(Suite *suite);
/* Adds a case of these tests. setup and teardown around each may be NULL. tags, or NULL: where it may be left
 * out by CK_EXCLUDE_TAGS: "pidfd" needs pidfds, "timing" bounds of time, "faults" handlers of SIGBUS that are
 * left by a jump. */
void unit_add(Suite *suite, const char *name, const TTest *const *tests, size_t count, SFun setup,
              SFun teardown, int timeout_seconds, const char *tags);
/* The same for a suite of one case. */
int unit_run_tests(const char *name, const TTest *const *tests, size_t count, SFun setup, SFun teardown,
                   int timeout_seconds);

#endif
