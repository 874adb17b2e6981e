/* The table of subcommands; usage is printed from it. Loads the settings, sees to it that a lasting process
 * carries its state directory in its command line, and hands over. */
#include "fcgi/commands.h"
#include "fcgi/options.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>

static const struct command {
    const char *name, *arguments, *help;
    int (*run)(const struct config *config, int argc, char **argv);
    bool lasting; /* a daemon: found by its command line */
} commands[] = {
    { "serve", "[--socket PATH|HOST:PORT]", "answer FastCGI requests on a socket, or on descriptor 0",
      cmd_serve, true },
    { "run", "", "all of it behind lighttpd, in the foreground (PORT, HOST, WORKERS, TOKEN)", cmd_run, true },
    { "warden", "", "start, mend and sweep the workspaces of a state directory", cmd_warden, true },
    { "keep", "WS", "run one workspace (the warden starts it)", cmd_keep, true },
    { "call", "OPERATION [JSON | -]", "run one operation as the owner, without a web server", cmd_call,
      false },
    { "describe", "openapi|actions|tools|config", "print a document made from the tables", cmd_describe,
      false },
    { "doctor", "[--json]", "say what this host can and cannot do, with the cure", cmd_doctor, false },
    { "token", "add|list|revoke ...", "tokens for other people and programs", cmd_token, false },
};

static void print_usage(FILE *out)
{
    fputs("usage: workspace-fcgi SUBCOMMAND [--state DIR] [--config FILE] [--set NAME=VALUE]... "
          "[ARGUMENTS]\n\n",
          out);
    for (size_t i = 0; i < N_ELEMENTS(commands); i++)
        fprintf(out, "  %-9s%-28s %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    fputs("\nSettings are WORKSPACE_* variables, in the file or in the environment; `describe config` "
          "explains them.\n",
          out);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_ELEMENTS(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* Executes this program again with the state directory named in full: `ps` and a search of /proc then find
 * every process of it. */
static void name_state(const struct options *o, const struct config *config, char *program_name)
{
    size_t count = 0, overrides = 0;

    if (o->state != NULL && strcmp(o->state, config->state_dir) == 0)
        return;
    while (o->overrides[overrides] != NULL)
        overrides++;
    _cleanup_free_ char **argv = xcalloc((size_t)o->argc + overrides * 2 + 8, sizeof(char *));
    argv[count++] = program_name;
    argv[count++] = o->argv[0];
    argv[count++] = (char *)"--state";
    argv[count++] = config->state_dir;
    if (o->config != NULL) {
        argv[count++] = (char *)"--config";
        argv[count++] = (char *)o->config;
    }
    for (size_t i = 0; i < overrides; i++) {
        if (strncmp(o->overrides[i], "WORKSPACE_STATE_DIR=", 20) == 0)
            continue;
        argv[count++] = (char *)"--set";
        argv[count++] = o->overrides[i];
    }
    for (int i = 1; i < o->argc; i++)
        argv[count++] = o->argv[i];
    execv("/proc/self/exe", argv);
    log_warning("the command line does not name the state directory: %s", strerror(errno));
}

/* What runs again under a longer command line leaves its warnings to that. */
static struct config *load(const struct options *o, const struct command *command, char *program_name,
                           struct error *err)
{
    if (!command->lasting)
        return options_load(o, err);
    log_init(command->name, LOG_LEVEL_ERROR, NULL);
    struct config *config = options_load(o, err);
    if (config == NULL)
        return NULL;
    name_state(o, config, program_name);
    config_free(config);
    log_init(command->name, LOG_LEVEL_INFO, NULL);
    return options_load(o, err);
}

static void print_problems(const struct error *err)
{
    size_t index;
    json_t *problem;

    if (err->detail == NULL)
        fprintf(stderr, "workspace-fcgi: %s\n", err->message);
    json_array_foreach(err->detail, index, problem) {
        fprintf(stderr, "workspace-fcgi: %s: %s\n",
                json_string_value(json_array_get(json_object_get(problem, "loc"), 0)),
                json_string_value(json_object_get(problem, "msg")));
    }
}

static enum log_level parse_level(const char *text)
{
    static const char *const names[] = { "debug", "info", "warning", "error" };

    for (size_t i = 0; text != NULL && i < N_ELEMENTS(names); i++)
        if (strcasecmp(text, names[i]) == 0)
            return (enum log_level)i;
    return LOG_LEVEL_INFO;
}

int main(int argc, char **argv)
{
    static struct options options;
    _cleanup_error_ struct error err = ERROR_INIT;

    if (options_parse(argc, argv, &options, &err) < 0) {
        fprintf(stderr, "workspace-fcgi: %s\n", err.message);
        return 2;
    }
    options_set_of_process(&options);
    const char *name = options.argc > 0 ? options.argv[0] : "--help";
    const struct command *command = find_command(name);
    if (command == NULL) {
        bool asked = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0;
        print_usage(asked ? stdout : stderr);
        return asked ? 0 : 2;
    }
    struct config *config = load(&options, command, argv[0], &err);
    if (config == NULL) {
        print_problems(&err);
        return 2;
    }
    log_init(command->name, parse_level(config->log_level), config->log_file);
    int status = command->run(config, options.argc, options.argv);
    config_free(config);
    options_clear(&options);
    return status;
}
