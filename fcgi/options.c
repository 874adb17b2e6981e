/* The global options, taken out of argv wherever they stand before "--", and what is said of unknown ones.
 * Knows no subcommand. */
#include "fcgi/options.h"

#include "fcgi/commands.h"
#include "lib/base/memory.h"
#include "lib/driver/driver.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

static const struct options *of_process;

/* "--name VALUE" or "--name=VALUE" at argv[*i]; false = not this one. */
static bool take_value(const char *name, int argc, char **argv, int *i, const char **ret, struct error *err)
{
    size_t length = strlen(name);

    if (strncmp(argv[*i], name, length) != 0 || (argv[*i][length] != '=' && argv[*i][length] != 0))
        return false;
    if (argv[*i][length] == '=')
        *ret = argv[*i] + length + 1;
    else if (*i + 1 < argc)
        *ret = argv[++*i];
    else
        error_set(err, ERROR_INVALID, "%s needs a value", name);
    return true;
}

static const struct {
    const char *option, *setting;
} shorthands[] = {
    { "--state", "WORKSPACE_STATE_DIR" },
    { "--workers", "WORKSPACE_WORKERS" },
};

static bool take_shorthand(int argc, char **argv, int *i, struct options *ret, size_t *overrides,
                           struct error *err)
{
    for (size_t s = 0; s < N_ELEMENTS(shorthands); s++) {
        const char *value = "";
        if (!take_value(shorthands[s].option, argc, argv, i, &value, err))
            continue;
        ret->overrides[(*overrides)++] = xasprintf("%s=%s", shorthands[s].setting, value);
        if (s == 0)
            ret->state = value;
        return true;
    }
    return false;
}

static bool take_global(int argc, char **argv, int *i, struct options *ret, size_t *overrides,
                        struct error *err)
{
    const char *value = "";

    if (take_shorthand(argc, argv, i, ret, overrides, err))
        return true;
    if (take_value("--config", argc, argv, i, &ret->config, err))
        return true;
    if (!take_value("--set", argc, argv, i, &value, err))
        return false;
    ret->overrides[(*overrides)++] = xstrdup(value);
    return true;
}

int options_parse(int argc, char **argv, struct options *ret, struct error *err)
{
    struct error problem = ERROR_INIT;
    size_t overrides = 0;
    bool open = true;

    *ret = (struct options){ .overrides = xcalloc((size_t)argc + 1, sizeof(char *)),
                             .argv = xcalloc((size_t)argc + 1, sizeof(char *)) };
    for (int i = 1; i < argc; i++) {
        open = open && strcmp(argv[i], "--") != 0;
        if (!open || !take_global(argc, argv, &i, ret, &overrides, &problem))
            ret->argv[ret->argc++] = argv[i];
    }
    if (problem.code == ERROR_NONE)
        return 0;
    options_clear(ret);
    error_move(err, &problem);
    return -1;
}

void options_clear(struct options *o)
{
    for (size_t i = 0; o->overrides != NULL && o->overrides[i] != NULL; i++)
        free(o->overrides[i]);
    free(o->overrides);
    free(o->argv);
    *o = (struct options){ 0 };
}

/* The table of settings lies below the drivers and cannot know their names. */
static int check_driver(const struct config *config, struct error *err)
{
    _cleanup_buffer_ struct buffer names = BUFFER_INIT;

    if (driver_find(config->driver) != NULL)
        return 0;
    for (const char *const *name = driver_names; *name != NULL; name++)
        buffer_printf(&names, "%s%s", name == driver_names ? "" : ", ", *name);
    return error_set(err, ERROR_INVALID, "WORKSPACE_DRIVER: there is no driver %.80s; there is: %s",
                     config->driver, buffer_text(&names));
}

static int check_file(const char *file, struct error *err)
{
    struct stat st;

    if (file == NULL || access(file, R_OK) == 0)
        return 0;
    int number = errno;
    if (number == ENOENT)
        return error_set(err, ERROR_NOT_FOUND, "there is no settings file %s", file);
    if (number != EACCES || stat(file, &st) < 0)
        return error_errno(err, ERROR_INVALID, number, "the settings file %s", file);
    return error_set(err, ERROR_FORBIDDEN,
                     "the settings file %s of uid %u, mode %04o, cannot be read by uid %u: chown or chmod it",
                     file, (unsigned)st.st_uid, st.st_mode & 07777, (unsigned)geteuid());
}

struct config *options_load(const struct options *o, struct error *err)
{
    if (check_file(o->config, err) < 0)
        return NULL;
    struct config *config = config_load(o->config, (const char *const *)o->overrides, err);

    if (config != NULL && check_driver(config, err) < 0) {
        config_free(config);
        return NULL;
    }
    return config;
}

const struct options *options_of_process(void)
{
    return of_process;
}

void options_set_of_process(const struct options *o)
{
    of_process = o;
}

int command_wrong_use(const char *command, const char *word)
{
    if (word != NULL)
        fprintf(stderr, "%s: '%.80s' is unknown here\n", command, word);
    else
        fprintf(stderr, "%s: something is missing\n", command);
    return COMMAND_WRONG_USE;
}

char *options_program(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

    return xstrndup(path, length > 0 ? (size_t)length : 0);
}
