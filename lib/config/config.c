/* Owns the settings: one table says everything about each of them. Reads a file and the environment, names
 * every problem, prints the sample. Knows nothing of what a setting is for. */
#include "lib/config/config.h"

#include "lib/config/settings.h"

#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define FILE_LIMIT    (1u << 20)
#define VALUE_LIMIT   65536
#define PROBLEM_LIMIT 64

extern char **environ;

/* ---- collecting ---- */
struct loader {
    struct config *config;
    const char **origin; /* for each setting, where its value came from; owned texts */
    size_t problems;
    struct buffer summary;
    json_t *detail; /* [{"loc": [where], "msg"}] */
};

static void PRINTF_LIKE(3, 4) complain(struct loader *l, const char *where, const char *format, ...)
{
    va_list list;
    char text[512];
    if (l->problems++ >= PROBLEM_LIMIT)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    json_array_append_new(l->detail,
                          json_pack("{s:[s%], s:s%}", "loc", where, utf8_valid_prefix(where, strlen(where)),
                                    "msg", text, utf8_valid_prefix(text, strlen(text))));
    if (l->summary.length > 0)
        buffer_append_text(&l->summary, "; ");
    buffer_printf(&l->summary, "%s: %s", where, text);
}

static void *slot(struct config *config, const struct setting *row)
{
    return (char *)config + row->offset;
}

static void set_text(struct loader *l, const struct setting *row, const char *text)
{
    char **at = slot(l->config, row);
    free(*at);
    *at = xstrdup(text);
}

enum { PROBLEM_SIZE = 200 };

static bool judge_integer(const struct setting *row, const char *value, int64_t *ret,
                          char problem[static PROBLEM_SIZE])
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (!*value || isspace((unsigned char)*value) || *end || errno == ERANGE)
        snprintf(problem, PROBLEM_SIZE, "is not a whole number");
    else if (number < row->min || number > row->max)
        snprintf(problem, PROBLEM_SIZE, "must be from %" PRId64 " to %" PRId64, row->min, row->max);
    else
        return *ret = number, true;
    return false;
}

static bool judge_text(const struct setting *row, const char *value, char problem[static PROBLEM_SIZE])
{
    const char *rule = row->rule ? row->rule(value) : NULL;
    for (const unsigned char *p = (const unsigned char *)value; *p && !rule; p++)
        if (*p < 0x20 || *p == 0x7f)
            rule = "has a control character";
    if (strlen(value) > VALUE_LIMIT)
        rule = "is too long";
    if (rule)
        snprintf(problem, PROBLEM_SIZE, "%s", rule);
    return !rule;
}

static void assign(struct loader *l, const struct setting *row, const char *value, const char *where)
{
    char problem[PROBLEM_SIZE];
    int64_t number = 0;
    if (row->type == SETTING_INTEGER ? !judge_integer(row, value, &number, problem)
                                     : !judge_text(row, value, problem))
        complain(l, where, "%s %s%s", row->name, problem,
                 strchr(value, '#') ? " (a # begins a comment only in the file, and only after white space)"
                                    : "");
    else if (row->type == SETTING_INTEGER)
        *(int64_t *)slot(l->config, row) = number;
    else
        set_text(l, row, value);
}

int config_check(const char *setting, const char *value, const char *shown, struct error *err)
{
    char problem[PROBLEM_SIZE];
    int64_t number;
    bool is_alias;
    const struct setting *row = setting_find(setting, &is_alias);
    if (!row)
        return error_set(err, ERROR_INVALID, "there is no setting %.80s", setting);
    if (row->type == SETTING_INTEGER ? judge_integer(row, value, &number, problem)
                                     : judge_text(row, value, problem))
        return 0;
    return error_set(err, ERROR_INVALID, "%s %s", shown, problem);
}

/* ---- the file ---- */
static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* White space with nothing behind it, or with a comment. */
static bool is_over(const char *text)
{
    const char *end = text;
    while (isspace((unsigned char)*end))
        end++;
    return !*end || (*end == '#' && end > text);
}

/* As systemd's EnvironmentFile takes them: one pair of quotes around the whole value goes. Beyond it, a
 * comment may follow: what begins with # after white space. A # within a word, as in a token, is plain. */
static char *take_value(char *text)
{
    char *value = trim(text), *end = value;
    if (*value == '"' || *value == '\'')
        for (char *quote = value; (quote = strchr(quote + 1, *value));)
            if (is_over(quote + 1)) {
                *quote = '\0';
                return value + 1;
            }
    if (value > text && *value == '#')
        *value = '\0';
    while (!is_over(end))
        end++;
    *end = '\0';
    return value;
}

static void take_line(struct loader *l, char *line, const char *where)
{
    bool is_alias = false;
    line = trim(line);
    if (!*line || *line == '#')
        return;
    char *equals = strchr(line, '=');
    if (!equals) {
        complain(l, where, "is not NAME=VALUE");
        return;
    }
    *equals = '\0';
    char *name = trim(line), *value = take_value(equals + 1);
    const struct setting *row = setting_find(name, &is_alias);
    if (!row) {
        complain(l, where, "there is no setting %.80s", name);
        return;
    }
    size_t index = (size_t)(row - settings);
    if (l->origin[index]) {
        complain(l, where, "%s is set already in %s", row->name, l->origin[index]);
        return;
    }
    l->origin[index] = xstrdup(where);
    if (is_alias)
        log_warning("settings: %s: %s is an old name of %s", where, name, row->name);
    assign(l, row, value, where);
}

static int load_file(struct loader *l, const char *file, struct error *err)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    if (io_read_file(AT_FDCWD, file, FILE_LIMIT, &content, err) < 0)
        return error_wrap(err, "the settings file %s", file);
    const char *text = buffer_text(&content);
    if (strlen(text) != content.length) {
        complain(l, file, "has a NUL byte");
        return 0;
    }
    char *at = content.data, *line;
    for (int number = 1; (line = strsep(&at, "\n")); number++) {
        _cleanup_free_ char *where = xasprintf("%s:%d", file, number);
        take_line(l, line, where);
    }
    return 0;
}

/* ---- the environment ---- */
static void load_environment(struct loader *l)
{
    for (const struct setting *row = settings; row < settings + setting_count; row++) {
        const char *value = getenv(row->name);
        if (value) {
            assign(l, row, value, "environment");
            continue;
        }
        for (size_t i = 0; i < N_ELEMENTS(row->aliases) && row->aliases[i]; i++)
            if ((value = getenv(row->aliases[i]))) {
                log_warning("settings: environment: %s is an old name of %s", row->aliases[i], row->name);
                assign(l, row, value, "environment");
                break;
            }
    }
}

/* A slip in a name must not pass in silence; but the environment is not ours alone, so it is no error. */
static void warn_of_unknown(void)
{
    for (char **entry = environ; entry && *entry; entry++) {
        bool is_alias;
        if (strncmp(*entry, "WORKSPACE_", 10) != 0)
            continue;
        _cleanup_free_ char *name = xstrndup(*entry, strcspn(*entry, "="));
        if (!setting_find(name, &is_alias))
            log_warning("settings: environment: there is no setting %.80s", name);
    }
}

static void load_overrides(struct loader *l, const char *const *overrides)
{
    for (; overrides && *overrides; overrides++) {
        bool is_alias;
        _cleanup_free_ char *name = xstrndup(*overrides, strcspn(*overrides, "="));
        const struct setting *row = setting_find(name, &is_alias);
        if (!row || !strchr(*overrides, '='))
            complain(l, "command line", "there is no setting %.80s", name);
        else
            assign(l, row, strchr(*overrides, '=') + 1, "command line");
    }
}

/* ---- the whole ---- */
static void set_defaults(struct config *config)
{
    for (const struct setting *row = settings; row < settings + setting_count; row++) {
        if (row->type == SETTING_INTEGER)
            *(int64_t *)slot(config, row) = strtoll(row->dflt, NULL, 10);
        else
            *(char **)slot(config, row) = xstrdup(row->dflt);
    }
}

static void strip_slashes(char *text)
{
    for (size_t length = strlen(text); length > 0 && text[length - 1] == '/'; length--)
        text[length - 1] = '\0';
}

static void make_absolute(char **path)
{
    _cleanup_free_ char *here = *path[0] == '/' ? NULL : getcwd(NULL, 0);
    if (here) {
        char *absolute = xasprintf("%s/%s", here, *path);
        free(*path);
        *path = absolute;
    }
    if (strcmp(*path, "/") != 0)
        strip_slashes(*path);
}

static void normalise(struct config *config)
{
    make_absolute(&config->state_dir);
    strip_slashes(config->base_url);
    strip_slashes(config->mount);
    for (char *p = config->log_level; *p; p++)
        *p = (char)toupper((unsigned char)*p);
}

static void loader_clear(struct loader *l)
{
    for (size_t i = 0; i < setting_count; i++)
        free((char *)l->origin[i]);
    free(l->origin);
    buffer_free(&l->summary);
    json_decref(l->detail);
    config_free(l->config);
}

struct config *config_load(const char *file, const char *const *overrides, struct error *err)
{
    __attribute__((cleanup(loader_clear))) struct loader l = {
        .config = xcalloc(1, sizeof *l.config),
        .origin = xcalloc(setting_count, sizeof *l.origin),
        .detail = json_array(),
    };
    set_defaults(l.config);
    if (file && load_file(&l, file, err) < 0)
        return NULL;
    load_environment(&l);
    warn_of_unknown();
    load_overrides(&l, overrides);
    if (l.problems > 0) {
        error_set(err, ERROR_INVALID, "%zu problem%s in the settings: %s", l.problems,
                  l.problems == 1 ? "" : "s", buffer_text(&l.summary));
        if (err)
            err->detail = STEAL(l.detail);
        return NULL;
    }
    normalise(l.config);
    return STEAL(l.config);
}

void config_free(struct config *config)
{
    if (!config)
        return;
    for (const struct setting *row = settings; row < settings + setting_count; row++)
        if (row->type == SETTING_TEXT)
            free(*(char **)slot(config, row));
    free(config);
}

const char *config_prefix(const struct config *config)
{
    const char *host = strstr(config->base_url, "://"), *path = host ? strchr(host + 3, '/') : NULL;
    return *config->mount ? config->mount : path ? path : "";
}

static bool is_default(const struct config *config, const struct setting *row)
{
    const void *at = slot((struct config *)config, row);
    return row->type == SETTING_INTEGER ? *(const int64_t *)at == strtoll(row->dflt, NULL, 10)
                                        : strcmp(*(char *const *)at, row->dflt) == 0;
}

void config_log_unused(const struct config *config)
{
    bool local = strcmp(config->driver, "local") == 0;
    for (const struct setting *row = settings; row < settings + setting_count; row++)
        if ((row->not_yet || (row->not_local && local)) && !is_default(config, row))
            log_warning("settings: %s has no effect %s", row->name,
                        row->not_yet ? "yet" : "with the local driver");
}

char *config_path(const struct config *config, const char *name, const char *leaf)
{
    return leaf ? xasprintf("%s/%s/%s", config->state_dir, name, leaf)
                : xasprintf("%s/%s", config->state_dir, name);
}

json_t *config_passed_variables(const struct config *config)
{
    json_t *passed = json_object();
    for (const char *at = config->pass_env; at && *at;) {
        _cleanup_free_ char *name = xstrndup(at, strcspn(at, ","));
        const char *value = getenv(name);
        if (value) /* what is no UTF-8 has no place in a frame, and is left out */
            json_object_set_new(passed, name, json_string(value));
        at += strlen(name) + (at[strlen(name)] == ',');
    }
    return passed;
}

/* ---- for children ---- */
static char *as_variable(const struct config *config, const struct setting *row)
{
    const void *at = slot((struct config *)config, row);
    if (row->type == SETTING_INTEGER)
        return xasprintf("%s=%" PRId64, row->name, *(const int64_t *)at);
    return xasprintf("%s=%s", row->name, *(char *const *)at);
}

/* Also what is at its default here may be set in the parent's environment: the file's loader lets the
 * environment win. */
char **config_environment(const struct config *config)
{
    char **environment = xcalloc(setting_count + 1, sizeof *environment);
    size_t count = 0;
    for (const struct setting *row = settings; row < settings + setting_count; row++) {
        _cleanup_free_ char *variable = as_variable(config, row);
        if (!row->secret && strcmp(variable + strlen(row->name) + 1, row->dflt) != 0)
            environment[count++] = STEAL(variable);
    }
    return environment;
}

bool config_is_secret(const char *variable)
{
    bool is_alias;
    _cleanup_free_ char *name = xstrndup(variable, strcspn(variable, "="));
    const struct setting *row = setting_find(name, &is_alias);
    return row && row->secret;
}

void config_free_environment(char **environment)
{
    for (char **at = environment; at && *at; at++)
        free(*at);
    free(environment);
}
