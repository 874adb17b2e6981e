/* The end of a test program's main: suite.h is for programs that share an installation. */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <check.h>
#include <stddef.h>

/* Runs and frees the suite, prints what failed (CK_VERBOSITY=verbose: every test); returns the exit status.
 */
int unit_run(Suite *suite);
/* The same for a suite of one case: setup and teardown around each test may be NULL. */
int unit_run_tests(const char *name, const TTest *const *tests, size_t count, SFun setup, SFun teardown,
                   int timeout_seconds);

#endif
