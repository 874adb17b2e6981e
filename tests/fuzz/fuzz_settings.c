/* The settings file: every problem is named, what is taken comes out of the environment of a child as it went
 * in, and a comment behind each line changes nothing. */
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

static struct config *load(const void *data, size_t size, struct error *err)
{
    char path[32];
    _cleanup_close_ int fd = memfd_create("settings", MFD_CLOEXEC);
    holds(fd >= 0 && io_write_all(fd, data, size, NULL) == 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return config_load(path, NULL, err);
}

static void check_comments(const char *data, size_t size, const struct config *config)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    for (const char *at = data, *end; at < data + size; at = end) {
        const char *newline = memchr(at, '\n', (size_t)(data + size - at));
        size_t length = newline ? (size_t)(newline - at) : (size_t)(data + size - at);
        buffer_append(&text, at, length);
        buffer_append_text(&text, "\t# a comment\n");
        end = at + length + 1;
    }
    struct config *commented = load(buffer_text(&text), text.length, &err);
    holds(commented != NULL);
    char **environment = config_environment(config), **again = config_environment(commented);
    holds(same(environment, again));
    config_free_environment(again);
    config_free_environment(environment);
    config_free(commented);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool begun;
    _cleanup_error_ struct error err = ERROR_INIT;
    if (!begun)
        log_init("fuzz", LOG_LEVEL_ERROR, "/dev/null");
    begun = true;
    if (size > 100000)
        return 0;
    struct config *config = load(data, size, &err);
    holds(config != NULL || (err.code != ERROR_NONE && err.message[0] != '\0'));
    if (config != NULL) {
        check_child(config);
        check_comments((const char *)data, size, config);
    }
    config_free(config);
    return 0;
}
