/* A driver for tests alone: the agent as a plain child in a folder, without any isolation. It keeps the
 * interface of drivers honest. */
#ifndef TESTS_BARE_H
#define TESTS_BARE_H

#include "lib/driver/driver.h"

extern const struct driver driver_bare;

#endif
