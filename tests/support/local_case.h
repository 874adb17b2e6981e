/* What the suites on the local driver share: a sandbox for each test, as root (a uid for each workspace) and
 * as www-data. */
#ifndef TESTS_LOCAL_CASE_H
#define TESTS_LOCAL_CASE_H

#include "tests/support/box.h"

extern struct box box; /* of the running test */
/* Every test gets a sandbox of its own in its own process; change may bend the spec before. False: this kind
 * is not possible here. */
bool local_start(int kind, void (*change)(struct sandbox_spec *spec));
pid_t local_child_pid(void); /* bwrap's, seen from outside */

/* First in a test that runs once for each kind. */
#define START(change)                                                                                        \
    if (!local_start(_i, change))                                                                            \
    return

#endif
