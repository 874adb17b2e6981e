/* Runs a Check suite over one installation. */
#include "tests/support/suite.h"
#include "lib/base/memory.h"
#include "tests/support/must.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

struct instance *the;

/* ---- as whom ---- */

static bool is_anybodys(uid_t uid)
{
    struct stat st;
    bool found = false;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; !found && proc && (entry = readdir(proc));)
        found = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
                fstatat(dirfd(proc), entry->d_name, &st, 0) == 0 && st.st_uid == uid;
    if (proc)
        closedir(proc);
    return found;
}

/* Held by an abstract socket until this process ends. */
static bool claim(uid_t uid)
{
    static int held = -1;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "workspace-fcgi-test-uid-%u",
                          (unsigned)uid);
    held = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    if (held >= 0 && bind(held, (struct sockaddr *)&address, size) == 0 && !is_anybodys(uid))
        return true;
    memory_close_fd(&held);
    return false;
}

/* A user by number goes short of what the kernel counts for each user: another run of the suite at the same
 * time, or what a failed one left behind, must be another user. AS says who it became. */
static uid_t find_user(const char *as)
{
    char text[16];
    uid_t uid = as ? (uid_t)strtoul(as, NULL, 10) : 0;
    for (int tries = 0; uid != 0; uid++) {
        must(tries++ < 100, "no user from %s on is free", as);
        if (!claim(uid))
            continue;
        snprintf(text, sizeof text, "%u", (unsigned)uid);
        setenv("AS", text, 1);
        break;
    }
    return uid;
}

/* ---- all ---- */

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
                                        .uid = find_user(as) };
    the = instance_start(&options);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    instance_stop(the);
    return failed == 0 ? 0 : 1;
}
