/* Runs a Check suite and answers for it. Knows nothing of what the tests do. */
#include "tests/support/unit.h"

int unit_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

int unit_run_tests(const char *name, const TTest *const *tests, size_t count, SFun setup, SFun teardown,
                   int timeout_seconds)
{
    Suite *suite = suite_create(name);
    TCase *cases = tcase_create(name);
    tcase_set_timeout(cases, timeout_seconds);
    tcase_add_checked_fixture(cases, setup, teardown);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return unit_run(suite);
}
