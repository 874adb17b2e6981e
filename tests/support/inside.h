/* Programs that a test compiles and runs inside a sandbox. */
#ifndef TESTS_INSIDE_H
#define TESTS_INSIDE_H

#include "tests/support/instance.h"

/* Compiles tests/http/NAME*.c, with its headers, in the workspace, as ~/NAME. */
void inside_compile(const struct instance *i, const char *ws, const char *name);
/* Runs a command and demands its output. */
void inside_expect(const struct instance *i, const char *ws, const char *command, const char *output);

#endif
