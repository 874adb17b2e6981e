/* What the suites on settings share: no environment, a log and settings in a directory of the test's own. */
#ifndef TESTS_CONFIG_CASE_H
#define TESTS_CONFIG_CASE_H

#include "lib/base/error.h"
#include "lib/config/config.h"
#include "tests/support/scratch.h"

extern struct error config_error; /* cleared after the test */
void config_set_up(void);
void config_tear_down(void);

bool config_log_has(const char *text);        /* what was logged so far */
struct config *config_from(const char *text); /* of a file that says this; NULL and config_error: refused */
/* The same, with a state directory of this name. */
struct config *config_for(const char *leaf, const char *text);

#endif
