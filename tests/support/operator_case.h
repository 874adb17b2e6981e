/* What the suites on an operator's commands share: a shell with $W, the program, and $S, a state directory
 * that is not there yet. */
#ifndef TESTS_OPERATOR_CASE_H
#define TESTS_OPERATOR_CASE_H

#include "lib/base/memory.h"

#include <stdbool.h>

#define AS_USER "setpriv --reuid www-data --regid www-data --clear-groups "

extern char operator_output[32768], operator_state[128];
void operator_set_up(void);
void operator_tear_down(void); /* ends what the test started with that state directory */

/* Exit status of a shell line; both its outputs are in operator_output. */
int operator_types(const char *format, ...) PRINTF_LIKE(1, 2);
void operator_reads(const char *text); /* asserts that the output has it */
bool operator_finds(const char *path);
bool operator_is_root(void);

#endif
