/* `call OPERATION [JSON]`: one operation as the owner, without a web server. Prints the result; 0 = it
 * succeeded. Its help shows the operations. Knows the service, no operation. */
#include "fcgi/commands.h"

#include "fcgi/state_directory.h"

#include "fcgi/options.h"
#include "fcgi/service.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/op/manual.h"
#include "lib/op/names.h"
#include "lib/warden/warden.h"

#include <stdio.h>

#define INPUT_MAX (16u << 20)
#define WARDEN_MS 5000

struct outcome {
    struct loop *loop;
    int exit_status;
};

static void done(void *user, int status, const char *text, size_t length)
{
    struct outcome *o = user;
    o->exit_status = status < 400 ? 0 : 1;
    FILE *out = status < 400 ? stdout : stderr;
    fwrite(text, 1, length, out);
    fputc('\n', out);
    fflush(out);
    loop_stop(o->loop);
}

static json_t *read_input(const char *argument, struct error *err)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    if (!argument)
        return json_object();
    if (strcmp(argument, "-") != 0)
        return field_parse_json(argument, strlen(argument), err);
    size_t got;
    do {
        got = fread(buffer_reserve(&text, 65536), 1, 65536, stdin);
        text.length += got;
    } while (got > 0 && text.length <= INPUT_MAX);
    return field_parse_json(buffer_text(&text), text.length, err);
}

static const struct op *find_op(const char *name)
{
    const struct op *op = op_find(name);

    return op ? op : op_find_tool(name);
}

static int unknown_op(const char *name)
{
    fprintf(stderr, "call: there is no operation %.80s; `workspace-fcgi call --help` lists them\n", name);
    return COMMAND_WRONG_USE;
}

static void list_ops(void)
{
    puts("Operations; `workspace-fcgi call OPERATION --help` shows the parameters of one:");
    for (const struct op *const *op = ops; *op; op++) {
        if ((*op)->flags & OP_RAW) /* over HTTP alone */
            continue;
        _cleanup_free_ char *summary = names_text((*op)->summary, DOCUMENT_CALL);
        printf("  %-34s %s\n", (*op)->id, summary);
    }
}

int cmd_call_help(const char *name)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;

    if (!name) {
        list_ops();
        return 0;
    }
    const struct op *op = find_op(name);
    if (!op)
        return unknown_op(name);
    _cleanup_free_ char *command = xasprintf("workspace-fcgi call %s", name);
    manual_append(&text, op, command);
    fputs(buffer_text(&text), stdout);
    return 0;
}

/* What only reads the stores works without one. */
static bool needs_warden(const struct op *op)
{
    return op->keep || op->action != OP_ACTION_NONE;
}

/* Before this process becomes the owner of the state directory: a keeper needs root where the workspace has a
 * user of its own. */
static int find_warden(const struct config *config, struct error *err)
{
    _cleanup_free_ char *program = options_program();
    _cleanup_free_ char *log = warden_log(config, WARDEN_OWN_LOG);
    struct warden_seen seen;
    int started = warden_ensure(config, program, WARDEN_SPARE | WARDEN_OWN_LOG, err);

    if (started <= 0)
        return started;
    if (!warden_await(config, 0, WARDEN_MS, &seen))
        return error_set(err, ERROR_UNAVAILABLE,
                         "the warden that was started does not answer; its messages: %s", log);
    fprintf(stderr,
            "call: started a warden, pid %d, log %s; it stays with the settings of this call "
            "until "
            "run, serve or warden start another one, or until: kill %d\n",
            (int)seen.pid, log, (int)seen.pid);
    return 0;
}

/* Its workspaces outlive this process. */
static int enter(const struct config *config, const struct op *op, struct error *err)
{
    if (state_directory_find(config, err) < 0 || state_directory_reach(config, err) < 0 ||
        (needs_warden(op) && find_warden(config, err) < 0))
        return -1;
    return config_become_owner(config, err);
}

static int call(const struct config *config, const struct op *op, json_t *in, struct error *err)
{
    struct outcome outcome = { .loop = loop_new(), .exit_status = 1 };
    struct principal owner = { .name = (char *)"owner", .read = true, .write = true, .admin = true };
    struct service *s = service_new(outcome.loop, config, err);
    if (!s) {
        loop_free(outcome.loop);
        return -1;
    }
    service_call(s, op, &owner, in, done, &outcome);
    loop_run(outcome.loop);
    service_free(s);
    loop_free(outcome.loop);
    return outcome.exit_status;
}

int cmd_call(const struct config *config, int argc, char **argv)
{
    if (argc > 3)
        return command_wrong_use(argv[0], argv[3]);
    if (argc < 2) {
        fputs("call: an operation, and its parameters as one JSON object\n", stderr);
        return COMMAND_WRONG_USE;
    }
    const struct op *op = find_op(argv[1]);
    if (!op)
        return unknown_op(argv[1]);
    if (config->log_file[0] == '\0' && !log_enabled(LOG_LEVEL_DEBUG))
        log_init("call", LOG_LEVEL_WARNING, NULL); /* a terminal shows the answer alone */
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *in = read_input(argc == 3 ? argv[2] : NULL, &err);
    int status = in && enter(config, op, &err) == 0 ? call(config, op, in, &err) : -1;
    if (status < 0)
        fprintf(stderr, "call: %s\n", err.message);
    return status < 0 ? 1 : status;
}
