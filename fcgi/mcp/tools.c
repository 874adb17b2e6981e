/* Tools for MCP: lists by sets of tools, kept as text; call results and errors in MCP's form. It knows
 * operations by their rows only. */
#include "fcgi/mcp/tools.h"

#include "lib/base/version.h"
#include "lib/op/describe.h"

#include <ctype.h>
#include <stdio.h>

#define MOST_HEADERS 4

/* An argument that a header repeats. */
struct tool_header {
    char *argument, *header; /* "mcp-param-workspace" */
};
struct tool {
    const struct op *op;
    struct tool_header headers[MOST_HEADERS];
    size_t header_count;
};
struct mcp_tools {
    unsigned usual;                             /* bits of config_toolsets */
    struct buffer lists[1u << CONFIG_TOOLSETS]; /* made when first asked for */
    struct tool *tools;
    size_t count;
};

/* ---- sets ---- */

static void name_sets(unsigned sets, struct buffer *out)
{
    for (size_t i = 0; i < CONFIG_TOOLSETS; i++) {
        if ((sets & 1u << i) == 0)
            continue;
        if (out->length > 0)
            buffer_append_char(out, ',');
        buffer_append_text(out, config_toolsets[i]);
    }
}

/* -1: one of them is unknown */
static int parse_sets(const struct mcp_tools *t, const char *sets, unsigned *ret)
{
    *ret = 0;
    if (sets && config_parse_toolsets(sets, ret) < 0)
        return -1;
    if (*ret == 0)
        *ret = t->usual;
    return 0;
}

void mcp_tools_part_sets(const struct mcp_tools *t, const char *sets, struct buffer *empty,
                         struct buffer *filled)
{
    unsigned bits, all = 0;
    for (size_t i = 0; i < t->count; i++) {
        unsigned own = 0;
        config_parse_toolsets(t->tools[i].op->toolset, &own);
        all |= own;
    }
    if (parse_sets(t, sets, &bits) == 0)
        name_sets(bits & ~all, empty);
    name_sets(all, filled);
}

const struct buffer *mcp_tools_list(struct mcp_tools *t, const char *sets)
{
    unsigned bits;
    if (parse_sets(t, sets, &bits) < 0)
        return NULL;
    struct buffer *list = &t->lists[bits];
    if (list->length == 0) {
        _cleanup_buffer_ struct buffer named = BUFFER_INIT;
        name_sets(bits, &named);
        json_auto_t *array = describe_tools(buffer_text(&named));
        rpc_append_value(list, array);
    }
    return list;
}

/* ---- headers ---- */

static void add_header(struct tool *tool, const char *argument, const char *name)
{
    if (tool->header_count == MOST_HEADERS)
        return;
    struct tool_header *h = &tool->headers[tool->header_count++];
    h->argument = xstrdup(argument);
    h->header = xasprintf("mcp-param-%s", name);
    for (char *at = h->header; *at; at++)
        *at = (char)tolower((unsigned char)*at);
}

static void find_headers(struct tool *tool)
{
    json_auto_t *described = describe_tool(tool->op);
    json_t *properties = json_object_get(json_object_get(described, "inputSchema"), "properties");
    const char *argument;
    json_t *schema;
    json_object_foreach(properties, argument, schema) {
        const char *name = json_string_value(json_object_get(schema, "x-mcp-header"));
        if (name)
            add_header(tool, argument, name);
    }
}

static bool header_fits(const char *text, const json_t *value)
{
    if (json_is_string(value))
        return strcmp(text, json_string_value(value)) == 0;
    if (json_is_boolean(value))
        return strcmp(text, json_is_true(value) ? "true" : "false") == 0;
    char *end;
    double number = strtod(text, &end);
    return json_is_number(value) && end != text && *end == '\0' && number == json_number_value(value);
}

static int check_header(const struct tool_header *h, const struct request *r, const json_t *arguments,
                        struct rpc_error *err)
{
    const json_t *value = json_object_get(arguments, h->argument);
    const char *header = request_header(r, h->header);
    _cleanup_free_ char *decoded = NULL;
    if (header && era_decode_header(header, &decoded) < 0)
        return rpc_error_set(err, 400, RPC_HEADER_MISMATCH, "Header mismatch: %s is not well formed",
                             h->header);
    if (!value || json_is_null(value))
        return 0;
    if (!header)
        return rpc_error_set(err, 400, RPC_HEADER_MISMATCH, "Header mismatch: %s is missing", h->header);
    if (!header_fits(decoded, value))
        return rpc_error_set(err, 400, RPC_HEADER_MISMATCH,
                             "Header mismatch: %s is not the argument in the body", h->header);
    return 0;
}

int mcp_tools_check_headers(struct mcp_tools *t, const struct op *op, const struct request *r,
                            const json_t *arguments, struct rpc_error *err)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct tool *tool = &t->tools[i];
        for (size_t j = 0; tool->op == op && j < tool->header_count; j++) {
            if (check_header(&tool->headers[j], r, arguments, err) < 0)
                return -1;
        }
    }
    return 0;
}

/* ---- life ---- */

struct mcp_tools *mcp_tools_new(const struct config *config)
{
    struct mcp_tools *t = xcalloc(1, sizeof(*t));
    if (config_parse_toolsets(config->mcp_toolsets, &t->usual) < 0 || t->usual == 0)
        t->usual = (1u << CONFIG_TOOLSETS) - 1;
    size_t rows = 0;
    while (ops[rows])
        rows++;
    t->tools = xcalloc(rows + 1, sizeof(*t->tools));
    for (size_t i = 0; i < rows; i++) {
        if (!ops[i]->tool || (ops[i]->flags & OP_REST_ONLY))
            continue;
        t->tools[t->count].op = ops[i];
        find_headers(&t->tools[t->count++]);
    }
    return t;
}

void mcp_tools_free(struct mcp_tools *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < N_ELEMENTS(t->lists); i++)
        buffer_free(&t->lists[i]);
    for (size_t i = 0; i < t->count; i++) {
        for (size_t j = 0; j < t->tools[i].header_count; j++) {
            free(t->tools[i].headers[j].argument);
            free(t->tools[i].headers[j].header);
        }
    }
    free(t->tools);
    free(t);
}

/* ---- results ---- */

void mcp_append_result_head(struct buffer *out, enum era era)
{
    static const char head[] =
        "\"resultType\":\"complete\",\"_meta\":{\"io.modelcontextprotocol/"
        "serverInfo\":{\"name\":\"" WORKSPACE_NAME "\",\"version\":\"" WORKSPACE_VERSION "\"}},";
    if (era_is_modern(era))
        buffer_append(out, head, sizeof(head) - 1);
}

static void append_text_block(struct buffer *out, const char *text, size_t length)
{
    buffer_append_text(out, "\"content\":[{\"type\":\"text\",\"text\":\"");
    buffer_append_json(out, text, length);
    buffer_append_text(out, "\"}]");
}

void mcp_append_call_result(struct buffer *out, const struct op *op, enum era era,
                            const struct buffer *blocks, bool failed, const char *text, size_t length)
{
    bool list = (op->flags & OP_LIST) != 0;
    buffer_append_char(out, '{');
    mcp_append_result_head(out, era);
    if (blocks->length > 0) {
        buffer_append_text(out, "\"content\":[");
        buffer_append(out, blocks->data, blocks->length);
        buffer_append_char(out, ']');
    } else {
        append_text_block(out, text, length);
    }
    buffer_append_text(out, list ? ",\"structuredContent\":{\"result\":" : ",\"structuredContent\":");
    buffer_append(out, text, length);
    buffer_append_text(out, list ? "}" : "");
    buffer_append_text(out, failed ? ",\"isError\":true}" : ",\"isError\":false}");
}

/* It repeats words of the client, of which nothing is to act on who reads it. */
static void append_shown(struct buffer *out, const char *text)
{
    if (text)
        buffer_append_shown_text(out, text, strlen(text));
}

/* "ValidationError: a: ... (and 1 more)", then each problem on a line of its own. */
static void describe_error(const struct error *err, struct buffer *out)
{
    buffer_append_text(out, error_type(err->code));
    buffer_append_text(out, ": ");
    append_shown(out, err->message);
    if (err->retry_after > 0)
        buffer_printf(out, " (try again in %d s)", err->retry_after);
    if (json_array_size(err->detail) < 2)
        return;
    size_t index, at;
    const json_t *problem, *part;
    json_array_foreach(err->detail, index, problem) {
        buffer_append_text(out, "\n-");
        json_array_foreach(json_object_get(problem, "loc"), at, part) {
            if (at == 0)
                continue;
            buffer_append_text(out, at > 1 ? "." : " ");
            if (json_is_integer(part))
                buffer_append_i64(out, json_integer_value(part));
            else
                append_shown(out, json_string_value(part));
        }
        buffer_append_text(out, ": ");
        append_shown(out, json_string_value(json_object_get(problem, "msg")));
    }
}

void mcp_append_call_error(struct buffer *out, enum era era, const struct error *err)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    describe_error(err, &text);
    buffer_append_char(out, '{');
    mcp_append_result_head(out, era);
    append_text_block(out, text.data, text.length);
    buffer_append_text(out, ",\"isError\":true}");
}
