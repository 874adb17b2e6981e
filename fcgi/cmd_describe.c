/* `describe openapi|actions|tools|config`: the documents made from the tables, on standard output. */
#include "fcgi/commands.h"

#include "lib/op/describe.h"

#include <stdio.h>

/* What documents name where no base URL is set: a place to be filled in. */
static const char *server_url(const struct config *config)
{
    return config->base_url[0] ? config->base_url : "https://workspace.example.com";
}

static void print_json(json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
    fputc('\n', stdout);
    json_decref(value);
}

static void openapi(const struct config *config)
{
    print_json(describe_openapi(config, server_url(config)));
}

static void actions(const struct config *config)
{
    print_json(describe_actions(config, server_url(config)));
}

static void tools(const struct config *config)
{
    print_json(describe_tools(config->mcp_toolsets[0] ? config->mcp_toolsets : NULL));
}

static void settings(const struct config *config)
{
    (void)config;
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    config_describe(&out);
    fwrite(out.data, 1, out.length, stdout);
}

static const struct {
    const char *name;
    void (*print)(const struct config *config);
} documents[] = {
    { "openapi", openapi },
    { "actions", actions },
    { "tools", tools },
    { "config", settings },
};

static bool is_document(const char *name)
{
    for (size_t i = 0; i < N_ELEMENTS(documents); i++)
        if (strcmp(documents[i].name, name) == 0)
            return true;
    return false;
}

int cmd_describe(const struct config *config, int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < N_ELEMENTS(documents); i++) {
        if (strcmp(documents[i].name, argv[1]) != 0)
            continue;
        documents[i].print(config);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    return command_wrong_use(argv[0], argc > 2 && is_document(argv[1]) ? argv[2] : argv[1]);
}
