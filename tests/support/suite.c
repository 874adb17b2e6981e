/* Runs a Check suite over one installation. */
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

struct instance *the;

void suite_add(Suite *suite, const TTest *test, int timeout_seconds)
{
    TCase *c = tcase_create(test->name);
    tcase_set_timeout(c, timeout_seconds);
    tcase_add_test(c, test);
    suite_add_tcase(suite, c);
}

int suite_main(Suite *suite, const char *const *environment)
{
    const char *as = getenv("AS");
    struct instance_options options = { .environment = environment,
                                        .unprivileged = as && *as,
                                        .uid = as ? (uid_t)strtoul(as, NULL, 10) : 0 };
    the = instance_start(&options);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    instance_stop(the);
    return failed == 0 ? 0 : 1;
}
