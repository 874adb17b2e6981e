/* Owns where a test's settings lie and what is logged about them. Knows no setting. */
#include "tests/support/config_case.h"

#include "lib/base/buffer.h"
#include "lib/base/io.h"
#include "lib/base/log.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>

struct error config_error;

void config_set_up(void)
{
    scratch_make();
    _cleanup_free_ char *log = xasprintf("%s/log", scratch);
    log_init("test", LOG_LEVEL_INFO, log);
    clearenv();
}

void config_tear_down(void)
{
    error_clear(&config_error);
    scratch_remove();
}

bool config_log_has(const char *text)
{
    _cleanup_free_ char *path = xasprintf("%s/log", scratch);
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    io_read_file(AT_FDCWD, path, 1 << 20, &content, NULL);
    return strstr(buffer_text(&content), text) != NULL;
}

struct config *config_from(const char *text)
{
    _cleanup_free_ char *path = xasprintf("%s/settings", scratch);
    ck_assert_int_eq(io_replace_file(AT_FDCWD, path, text, strlen(text), 0600, &config_error), 0);
    error_clear(&config_error);
    return config_load(path, NULL, &config_error);
}

struct config *config_for(const char *leaf, const char *text)
{
    struct config *config = config_from(text);
    free(config->state_dir);
    config->state_dir = xasprintf("%s/%s", scratch, leaf);
    return config;
}
