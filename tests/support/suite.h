/* The main of a test program that shares one installation among its tests (each test runs in a forked child).
 */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include "tests/support/instance.h"

#include <check.h>

extern struct instance *the; /* the program's installation */

/* AS=www-data, or a number, in the environment runs it as that user where the test is root. Prints the
 * figures of the run; returns the exit status. */
int suite_main(Suite *suite, const char *const *environment);
/* Adds a case of one test with a time limit of its own. */
void suite_add(Suite *suite, const TTest *test, int timeout_seconds);

#endif
