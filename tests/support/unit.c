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

void unit_add(Suite *suite, const char *name, const TTest *const *tests, size_t count, SFun setup,
              SFun teardown, int timeout_seconds, const char *tags)
{
    TCase *cases = tcase_create(name);
    tcase_set_timeout(cases, timeout_seconds);
    tcase_add_checked_fixture(cases, setup, teardown);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(cases, tests[i]);
    if (tags)
        tcase_set_tags(cases, tags);
    suite_add_tcase(suite, cases);
}

int unit_run_tests(const char *name, const TTest *const *tests, size_t count, SFun setup, SFun teardown,
                   int timeout_seconds)
{
    Suite *suite = suite_create(name);
    unit_add(suite, name, tests, count, setup, teardown, timeout_seconds, NULL);
    return unit_run(suite);
}
