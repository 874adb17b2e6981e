/* Joins environ and the settings; knows no setting by name. */
#include "lib/warden/settings.h"

#include "lib/base/memory.h"

extern char **environ;

static size_t count(char *const *entries)
{
    size_t n = 0;
    while (entries[n] != NULL)
        n++;
    return n;
}

static bool is_overridden(const char *entry, char *const *settings)
{
    size_t length = strcspn(entry, "=");
    for (; *settings != NULL; settings++)
        if (strncmp(*settings, entry, length) == 0 && (*settings)[length] == '=')
            return true;
    return false;
}

char **settings_environment(const struct config *config)
{
    char **settings = config_environment(config);
    char **all = xcalloc(count(environ) + count(settings) + 1, sizeof(*all));
    size_t n = 0;
    for (char **e = environ; *e != NULL; e++)
        if (!is_overridden(*e, settings) && !config_is_secret(*e))
            all[n++] = xstrdup(*e);
    for (char **e = settings; *e != NULL; e++)
        all[n++] = xstrdup(*e);
    config_free_environment(settings);
    return all;
}

void settings_free_environment(char **environment)
{
    if (environment == NULL)
        return;
    for (char **e = environment; *e != NULL; e++)
        free(*e);
    free(environment);
}
