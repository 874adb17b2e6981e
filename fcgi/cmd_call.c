/* `call OPERATION [JSON]`: one operation as the owner, without a web server. Prints the result; 0 = it
 * succeeded. Knows the service, no operation. */
#include "fcgi/commands.h"

#include "fcgi/state_directory.h"

#include "fcgi/options.h"
#include "fcgi/service.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/warden/warden.h"

#include <stdio.h>

#define INPUT_MAX (16u << 20)

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

static void list_operations(FILE *out)
{
    fputs("usage: workspace-fcgi call OPERATION [JSON | -]\n\nOperations:\n", out);
    for (const struct op *const *op = ops; *op; op++)
        fprintf(out, "  %-34s %s\n", (*op)->id, (*op)->summary);
}

/* Before it becomes the owner of the state directory: a keeper needs root where the workspace has a user of
 * its own. */
static void start_warden(const struct config *config)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *program = options_program();

    if (geteuid() == 0 && warden_ensure(config, program, &err) < 0)
        log_warning("%s", err.message);
}

static int call(const struct config *config, const struct op *op, json_t *in, struct error *err)
{
    struct outcome outcome = { .loop = loop_new(), .exit_status = 1 };
    struct principal owner = { .name = (char *)"owner", .read = true, .write = true, .admin = true };
    _cleanup_free_ char *program = options_program();
    struct service *s = service_new(outcome.loop, config, program, err);
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
    const struct op *op = argc >= 2 && argc <= 3 ? op_find(argv[1]) : NULL;
    if (!op && argc >= 2)
        op = op_find_tool(argv[1]);
    if (!op || argc > 3) {
        list_operations(stderr);
        return 2;
    }
    if (config->log_file[0] == '\0' && !log_enabled(LOG_LEVEL_DEBUG))
        log_init("call", LOG_LEVEL_WARNING, NULL); /* a terminal shows the answer alone */
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *in = read_input(argc == 3 ? argv[2] : NULL, &err);
    int status = -1;
    if (in && state_directory_make(config, &err) == 0)
        start_warden(config);
    if (in && state_directory_enter(config, &err) == 0)
        status = call(config, op, in, &err);
    if (status < 0)
        fprintf(stderr, "call: %s\n", err.message);
    return status < 0 ? 1 : status;
}
