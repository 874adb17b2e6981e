/* The table of subcommands; usage is printed from it. Loads the settings, sees to it that a lasting process
 * carries its state directory in its command line, and hands over. */
#include "fcgi/audited.h"
#include "fcgi/commands.h"
#include "fcgi/options.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"
#include "lib/base/version.h"

#include <errno.h>
#include <strings.h>

static const struct command {
    const char *name, *help;
    const char *forms[4]; /* of its arguments, NULL-ended */
    int (*run)(const struct config *config, int argc, char **argv);
    bool lasting;     /* a daemon: found by its command line */
    const char *more; /* of its help; NULL = nothing */
    int (*help_of)(
        const char *word); /* more of its help, or with its first argument help on that; the exit status */
} commands[] = {
    { "serve",
      "answer FastCGI requests on a socket, or on descriptor 0",
      { "[--socket PATH] [--no-warden]" },
      cmd_serve,
      true,
      "--socket PATH  a UNIX socket; else descriptor 0 where it listens, else fcgi.sock in the state "
      "directory\n"
      "--no-warden    somebody else starts the warden: a unit of its own\n"
      "SIGHUP loads the settings again, SIGTERM ends it when every request is answered.\n",
      NULL },
    { "run",
      "all of it behind lighttpd, in the foreground",
      { "" },
      cmd_run,
      true,
      "From the environment: PORT (8080), HOST (127.0.0.1), WORKERS (2), TOKEN (else the one in the file "
      "`token` of "
      "the state\ndirectory, made where it is missing).\n",
      NULL },
    { "warden",
      "start, mend and sweep the workspaces of a state directory",
      { "[--wait] [--spare [--fresh]]" },
      cmd_warden,
      true,
      "There is one for each state directory: another one says so and ends, or waits with --wait.\n"
      "A --spare one gives way to one started without it, or with --fresh.\n",
      NULL },
    { "keep", "run one workspace (the warden starts it)", { "WS" }, cmd_keep, true, NULL, NULL },
    { "call",
      "run one operation as the owner, without a web server",
      { "OPERATION [JSON | -]", "OPERATION --help" },
      cmd_call,
      false,
      NULL,
      cmd_call_help },
    { "describe",
      "print a document made from the tables",
      { "openapi|actions|tools|config" },
      cmd_describe,
      false,
      NULL,
      NULL },
    { "doctor",
      "say what this host can and cannot do, with the cure",
      { "[--json]" },
      cmd_doctor,
      false,
      "The exit status is 1 where a check failed.\n",
      NULL },
    { "tools",
      "programs of your own for every workspace",
      { "add [--new] FILE...", "list" },
      cmd_tools,
      false,
      "They are copied into the folder `tools` of the state directory, which sandboxes have at the end of "
      "PATH, "
      "read-only.\n--new  makes the state directory where there is none\n",
      NULL },
    { "token",
      "tokens for other people and programs",
      { "add NAME [--scope read,write,admin] [--workspace ws-...]", "list", "revoke ID" },
      cmd_token,
      false,
      "NAME is the principal: tokens of one name share its workspaces; \"owner\" is who holds "
      "WORKSPACE_TOKEN.\n",
      NULL },
};

static const char options_help[] = "Every subcommand takes --state DIR, --config FILE, --workers N and --set "
                                   "NAME=VALUE (as often as needed).\n"
                                   "Settings are WORKSPACE_* variables, in the file or in the environment; "
                                   "`describe config` explains them.\n";

static void print_usage(FILE *out)
{
    fputs("usage: workspace-fcgi SUBCOMMAND [OPTIONS] [ARGUMENTS]\n"
          "       workspace-fcgi SUBCOMMAND --help\n"
          "       workspace-fcgi --version\n\n",
          out);
    for (size_t i = 0; i < N_ELEMENTS(commands); i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\n%s", options_help);
}

static void print_forms(const struct command *c, FILE *out)
{
    for (size_t i = 0; i < N_ELEMENTS(c->forms) && c->forms[i] != NULL; i++)
        fprintf(out, "%s workspace-fcgi %s%s%s\n", i == 0 ? "usage:" : "      ", c->name,
                *c->forms[i] ? " " : "", c->forms[i]);
}

static bool is_help(const char *argument)
{
    return strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0;
}

/* NULL = nothing but --help. */
static const char *first_word(const struct options *o)
{
    for (int i = 1; i < o->argc; i++)
        if (!is_help(o->argv[i]))
            return o->argv[i];
    return NULL;
}

static int print_help(const struct command *c, const struct options *o)
{
    int status = 0;

    if (c->help_of != NULL && first_word(o) != NULL)
        return c->help_of(first_word(o));
    print_forms(c, stdout);
    printf("\n%s\n", c->help);
    if (c->more != NULL)
        printf("%s", c->more);
    if (c->help_of != NULL)
        status = c->help_of(NULL);
    printf("\n%s", options_help);
    return status;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_ELEMENTS(commands); i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static bool asks_for_help(const struct options *o)
{
    for (int i = 1; i < o->argc && strcmp(o->argv[i], "--") != 0; i++)
        if (is_help(o->argv[i]))
            return true;
    return false;
}

static enum log_level parse_level(const char *text)
{
    static const char *const names[] = { "debug", "info", "warning", "error" };

    for (size_t i = 0; text != NULL && i < N_ELEMENTS(names); i++)
        if (strcasecmp(text, names[i]) == 0)
            return (enum log_level)i;
    return LOG_LEVEL_INFO;
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

static int run(const struct command *command, struct options *options, char *program_name)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct config *config = load(options, command, program_name, &err);

    if (config == NULL) {
        print_problems(&err);
        return 2;
    }
    log_init(command->name, parse_level(config->log_level), config->log_file);
    audited_setup(command->name, config);
    int status = command->run(config, options->argc, options->argv);
    if (status == COMMAND_WRONG_USE)
        print_forms(command, stderr);
    config_free(config);
    return status;
}

/* What is no subcommand: help, version, a slip. */
static int answer(const char *name)
{
    if (strcmp(name, "--version") == 0)
        puts(WORKSPACE_NAME " " WORKSPACE_VERSION);
    else if (is_help(name) || strcmp(name, "help") == 0)
        print_usage(stdout);
    else {
        if (*name)
            fprintf(stderr, "workspace-fcgi: there is no subcommand %.80s\n", name);
        print_usage(stderr);
        return 2;
    }
    return 0;
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
    const char *name = options.argc > 0 ? options.argv[0] : "";
    const struct command *command = find_command(name);
    int status = 0;
    if (command == NULL)
        status = answer(name);
    else if (asks_for_help(&options))
        status = print_help(command, &options);
    else
        status = run(command, &options, argv[0]);
    options_clear(&options);
    return status;
}
