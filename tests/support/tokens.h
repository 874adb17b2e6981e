/* Further tokens of a running installation. */
#ifndef TESTS_TOKENS_H
#define TESTS_TOKENS_H

#include "tests/support/instance.h"

/* Runs `workspace-fcgi token ARGUMENTS`, which must succeed; its output, until the next call. */
char *token_command(const struct instance *i, const char *arguments);
/* `token add ARGUMENTS`. */
void token_add(const struct instance *i, const char *arguments, char token[static 128]);

#endif
