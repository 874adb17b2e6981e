/* The settings file: every problem is named, and what is taken comes out of the environment of a child as it
 * went in. */
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/config/config.h"
#include "tests/fuzz/input.h"

#include <stdio.h>
#include <sys/mman.h>

static bool same(char **a, char **b)
{
    for (; *a != NULL && *b != NULL; a++, b++)
        if (strcmp(*a, *b) != 0)
            return false;
    return *a == NULL && *b == NULL;
}

static void check_child(const struct config *config)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    char **environment = config_environment(config);
    struct config *child = config_load(NULL, (const char *const *)environment, &err);
    holds(child != NULL);
    char **again = config_environment(child);
    holds(same(environment, again));
    config_free_environment(again);
    config_free_environment(environment);
    config_free(child);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;
    char path[32];
    _cleanup_error_ struct error err = ERROR_INIT;
    if (!begun)
        log_init("fuzz", LOG_LEVEL_ERROR, "/dev/null");
    begun = true;
    if (size > 100000)
        return 0;
    _cleanup_close_ int fd = memfd_create("settings", MFD_CLOEXEC);
    holds(fd >= 0 && io_write_all(fd, data, size, NULL) == 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    struct config *config = config_load(path, NULL, &err);
    holds(config != NULL || (err.code != ERROR_NONE && err.message[0] != '\0'));
    if (config != NULL)
        check_child(config);
    config_free(config);
    return 0;
}
