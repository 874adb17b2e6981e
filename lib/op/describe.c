/* The documents made from the operation rows: OpenAPI for everybody, a flatter one for GPT Actions, MCP
 * tools. Deterministic: order is the table's. Knows rows, no handler. */
#include "lib/op/describe.h"

#include "lib/base/version.h"
#include "lib/op/names.h"

#define BEARER "GatewayBearer"

/* ---- MCP ---- */

static json_t *annotations(const struct op *op)
{
    return json_pack("{s:s, s:b, s:b, s:b, s:b}", "title", op->title, "readOnlyHint",
                     !!(op->flags & OP_READ_ONLY), "destructiveHint", !!(op->flags & OP_DESTRUCTIVE),
                     "idempotentHint", !!(op->flags & OP_IDEMPOTENT), "openWorldHint",
                     !!(op->flags & OP_OPEN_WORLD));
}

/* Structured content is an object: a list stands in it as "result". */
static json_t *output_schema(const struct op *op)
{
    json_t *schema = field_to_schema(op->result, true);

    if (!(op->flags & OP_LIST))
        return schema;
    return json_pack("{s:s, s:{s:{s:s, s:o}}, s:[s], s:b}", "type", "object", "properties", "result", "type",
                     "array", "items", schema, "required", "result", "additionalProperties", 0);
}

static json_t *whole_text(const struct op *op)
{
    return op->description ? json_sprintf("%s %s", op->summary, op->description) : json_string(op->summary);
}

static json_t *input_schema(const struct op *op)
{
    json_t *schema = field_to_schema(op->params, false);

    for (const struct field *row = op->params; row->name; row++)
        if (row->http_only)
            json_object_del(json_object_get(schema, "properties"), row->name);
    return schema;
}

json_t *describe_tool(const struct op *op)
{
    json_t *ret = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "name", op->tool, "title", op->title,
                            "description", whole_text(op), "inputSchema", input_schema(op), "outputSchema",
                            output_schema(op), "annotations", annotations(op));

    names_fill(ret, DOCUMENT_TOOLS);
    return ret;
}

/* toolset is one of the comma-separated list. */
static bool is_listed(const char *toolsets, const char *toolset)
{
    size_t length = strlen(toolset);

    for (const char *at = toolsets; at; at = strchr(at, ',')) {
        at += strspn(at, ", ");
        if (!strncmp(at, toolset, length) && (at[length] == '\0' || at[length] == ',' || at[length] == ' '))
            return true;
    }
    return false;
}

static bool is_told(const struct op *const *last)
{
    for (const struct op *const *op = ops; op < last; op++)
        if ((*op)->tool && !strcmp((*op)->toolset, (*last)->toolset))
            return true;
    return false;
}

char *describe_toolsets(void)
{
    _cleanup_buffer_ struct buffer names = BUFFER_INIT;

    for (const struct op *const *op = ops; *op; op++)
        if ((*op)->tool && !is_told(op))
            buffer_printf(&names, "%s%s", names.length ? ", " : "", (*op)->toolset);
    return xstrdup(buffer_text(&names));
}

json_t *describe_tools(const char *toolsets)
{
    json_t *tools = json_array();

    for (const struct op *const *op = ops; *op; op++)
        if ((*op)->tool && (!toolsets || is_listed(toolsets, (*op)->toolset)))
            json_array_append_new(tools, describe_tool(*op));
    return tools;
}

/* ---- OpenAPI ---- */

static bool has_body(const struct op *op)
{
    return strcmp(op->method, "GET") != 0 && strcmp(op->method, "DELETE") != 0 && !(op->flags & OP_RAW);
}

/* Of what is sent "or null" goes: what is left out is null anyway. */
static void send_one_type(json_t *schema)
{
    json_t *type = json_object_get(schema, "type"), *member, *either;
    size_t index;

    if (json_is_array(type))
        json_object_set(schema, "type", json_array_get(type, 0));
    if (json_is_null(json_object_get(schema, "default")))
        json_object_del(schema, "default");
    json_array_foreach(json_object_get(schema, "enum"), index, member)
        if (json_is_null(member))
            json_array_remove(json_object_get(schema, "enum"), index--);
    either = json_array_get(json_object_get(schema, "anyOf"), 0);
    if (!either)
        return;
    json_object_update_missing(schema, either);
    json_object_del(schema, "anyOf");
    send_one_type(schema);
}

/* Of an answer nothing is promised that does not hold: what may be null, or of two types, has none. */
static void answer_no_two_types(json_t *schema)
{
    if (json_is_array(json_object_get(schema, "type")))
        json_object_del(schema, "type");
    json_object_del(schema, "anyOf");
}

/* GPT Actions read one type for each member at most. */
static void flatten(json_t *schema, void (*flatten_one)(json_t *schema))
{
    static const char *const inner[] = { "items", "additionalProperties" };
    const char *name;
    json_t *member;

    flatten_one(schema);
    json_object_foreach(json_object_get(schema, "properties"), name, member)
        flatten(member, flatten_one);
    for (size_t i = 0; i < N_ELEMENTS(inner); i++)
        if (json_is_object(json_object_get(schema, inner[i])))
            flatten(json_object_get(schema, inner[i]), flatten_one);
}

static json_t *sent(json_t *schema, enum document document)
{
    if (document == DOCUMENT_ACTIONS)
        flatten(schema, send_one_type);
    return schema;
}

static json_t *answered(json_t *schema, enum document document)
{
    if (document == DOCUMENT_ACTIONS)
        flatten(schema, answer_no_two_types);
    return schema;
}

static json_t *parameter(const struct op *op, const struct field *row, enum document document)
{
    bool in_path = op_path_has(op, row->name);
    json_t *schema = sent(field_row_schema(row), document);
    json_t *ret = json_pack("{s:s, s:s, s:b}", "name", row->name, "in", in_path ? "path" : "query",
                            "required", in_path || row->required);

    if (row->text)
        json_object_set_new(ret, "description", json_string(row->text));
    json_object_del(schema, "description");
    json_object_set_new(ret, "schema", schema);
    return ret;
}

static json_t *key_parameter(void)
{
    return json_pack("{s:s, s:s, s:b, s:s, s:{s:s, s:i, s:i}}", "name", "Idempotency-Key", "in", "header",
                     "required", 0, "description",
                     "The same key within a day gives the first answer again, never a second run.", "schema",
                     "type", "string", "minLength", 1, "maxLength", 255);
}

static json_t *parameters(const struct op *op, enum document document)
{
    json_t *list = json_array();

    for (const struct field *row = op->params; row->name; row++)
        if (!has_body(op) || op_path_has(op, row->name))
            json_array_append_new(list, parameter(op, row, document));
    if (op->flags & OP_KEYED && document == DOCUMENT_FULL)
        json_array_append_new(list, key_parameter());
    return list;
}

static json_t *bytes(void)
{
    return json_pack("{s:{s:{s:s, s:s}}}", "application/octet-stream", "schema", "type", "string", "format",
                     "binary");
}

/* The body's rows: what is not in the path. NULL where there are none. */
static json_t *request_body(const struct op *op, enum document document)
{
    json_t *schema, *required, *name;
    bool needed = false;
    size_t index;

    if (op->flags & OP_RAW && !(op->flags & OP_READ_ONLY))
        return json_pack("{s:b, s:o}", "required", 1, "content", bytes());
    if (!has_body(op))
        return NULL;
    schema = field_to_schema(op->params, false);
    required = json_object_get(schema, "required");
    for (const struct field *row = op->params; row->name; row++)
        if (op_path_has(op, row->name))
            json_object_del(json_object_get(schema, "properties"), row->name);
    json_array_foreach(required, index, name)
        if (op_path_has(op, json_string_value(name)))
            json_array_remove(required, index--);
    needed = json_array_size(required) > 0;
    if (!needed)
        json_object_del(schema, "required");
    if (json_object_size(json_object_get(schema, "properties")) == 0) {
        json_decref(schema);
        return NULL;
    }
    return json_pack("{s:b, s:{s:{s:o}}}", "required", needed, "content", "application/json", "schema",
                     sent(schema, document));
}

static json_t *error_schema(void)
{
    static const struct field detail_rows[] = {
        { "loc", FIELD_ARRAY, .required = true,
          .text = "Where: body, query, path or arguments, then names and indexes." },
        { "msg", FIELD_STRING, .required = true, .text = "The rule." },
        FIELD_END,
    };
    static const struct field detail_row = { NULL, FIELD_OBJECT, .members = detail_rows };
    static const struct field error_rows[] = {
        { "error", FIELD_STRING, .required = true, .text = "What is wrong." },
        { "type", FIELD_STRING, .required = true, .text = "Kind of error, such as ValidationError." },
        { "detail", FIELD_ARRAY, .items = &detail_row, .text = "Every problem, with status 422." },
        FIELD_END,
    };
    return field_to_schema(error_rows, true);
}

static const struct {
    const char *status, *name, *text;
    unsigned flags; /* only for operations with one of these; 0 = all */
    bool body;      /* only for those that take one */
} problems[] = {
    { "400", "Invalid", "A rule between fields, or broken JSON.", 0, false },
    { "401", "Unauthorized", "No token, or a wrong one.", 0, false },
    { "403", "Forbidden", "The token may not do this.", 0, false },
    { "404", "NotFound", "Not known, or another principal's.", OP_ON_WORKSPACE, false },
    { "409", "Conflict", "Not in this state, or in conflict with another request.", 0, false },
    { "412", "Precondition", "The file has another content than a condition named.", OP_RAW, false },
    { "413", "TooLarge", "The body is too large.", 0, false },
    { "415", "MediaType", "The body is not application/json.", 0, true },
    { "416", "Range", "The file has none of these bytes.", OP_RAW, false },
    { "422", "Validation", "A field is missing, unknown, of a wrong type or out of bounds.", 0, false },
    { "429", "TooMany", "Too many at once; see Retry-After.", 0, false },
    { "500", "Internal", "A fault of the gateway.", 0, false },
    { "501", "Unsupported", "This driver cannot.", 0, false },
    { "502", "Driver", "The driver failed.", 0, false },
    { "503", "Unavailable", "Not ready, or no token is configured.", 0, false },
    { "504", "Timeout", "The driver took too long.", 0, false },
    { "507", "Full", "The disk or the store is full.", 0, false },
};

static json_t *answer(const struct op *op, enum document document)
{
    if (op->flags & OP_RAW && op->flags & OP_READ_ONLY)
        return json_pack("{s:s, s:o}", "description", "The bytes; 206 for a range of them.", "content",
                         bytes());
    json_t *schema = answered(field_to_schema(op->result, true), document), *content;

    if (op->flags & OP_LIST)
        schema = json_pack("{s:s, s:o}", "type", "array", "items", schema);
    content = json_pack("{s:{s:o}}", "application/json", "schema", schema);
    if (op->flags & OP_STREAMS && document == DOCUMENT_FULL)
        json_object_set_new(content, "text/event-stream", json_pack("{s:{s:s}}", "schema", "type", "string"));
    return json_pack("{s:s, s:o}", "description", "Done.", "content", content);
}

static json_t *responses(const struct op *op, enum document document)
{
    json_t *ret = json_pack("{s:o}", "200", answer(op, document));

    for (size_t i = 0; document == DOCUMENT_FULL && i < N_ELEMENTS(problems); i++)
        if ((!problems[i].flags || op->flags & problems[i].flags) && (!problems[i].body || has_body(op)))
            json_object_set_new(
                ret, problems[i].status,
                json_pack("{s:o}", "$ref", json_sprintf("#/components/responses/%s", problems[i].name)));
    if (document == DOCUMENT_ACTIONS)
        json_object_set_new(ret, "default",
                            json_pack("{s:s, s:{s:{s:o}}}", "description", "What is wrong.", "content",
                                      "application/json", "schema", error_schema()));
    return ret;
}

static json_t *operation(const struct op *op, enum document document)
{
    json_t *ret = json_pack("{s:s, s:s}", "operationId", op->id, "summary", op->summary), *body;

    if (op->description)
        json_object_set_new(ret, "description", json_string(op->description));
    json_object_set_new(ret, "tags", json_pack("[s]", op->toolset));
    json_object_set_new(ret, "x-openai-isConsequential", json_boolean(op->flags & OP_CONSEQUENTIAL));
    json_object_set_new(ret, "parameters", parameters(op, document));
    body = request_body(op, document);
    if (body)
        json_object_set_new(ret, "requestBody", body);
    json_object_set_new(ret, "responses", responses(op, document));
    return ret;
}

static void add_operation(json_t *paths, const struct op *op, enum document document)
{
    _cleanup_free_ char *path = xasprintf("/api%s", op->path), *method = xstrdup(op->method);
    json_t *item = json_object_get(paths, path);

    for (char *at = method; *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    if (!item) {
        item = json_object();
        json_object_set_new(paths, path, item);
    }
    json_object_set_new(item, method, operation(op, document));
}

static json_t *components(enum document document)
{
    json_t *ret = json_pack("{s:{s:{s:s, s:s}}, s:{}}", "securitySchemes", BEARER, "type", "http", "scheme",
                            "bearer", "schemas");
    json_t *list;

    if (document == DOCUMENT_ACTIONS)
        return ret;
    json_object_set_new(json_object_get(ret, "schemas"), "Error", error_schema());
    list = json_object();
    for (size_t i = 0; i < N_ELEMENTS(problems); i++)
        json_object_set_new(list, problems[i].name,
                            json_pack("{s:s, s:{s:{s:{s:s}}}}", "description", problems[i].text, "content",
                                      "application/json", "schema", "$ref", "#/components/schemas/Error"));
    json_object_set_new(ret, "responses", list);
    return ret;
}

static json_t *describe(const char *server_url, enum document document)
{
    json_t *paths = json_object();

    for (const struct op *const *op = ops; *op; op++)
        if (document_name(document, *op))
            add_operation(paths, *op, document);
    names_fill(paths, document);
    return json_pack("{s:s, s:{s:s, s:s, s:s, s:o}, s:[{s:s}], s:[{s:[]}], s:o, s:o}", "openapi", "3.1.0",
                     "info", "title", "Workspace Gateway", "version", WORKSPACE_VERSION, "description",
                     "Sandboxed Linux workspaces that last, with realtime commands.", "x-privacy-policy-url",
                     json_sprintf("%s/privacy", server_url), "servers", "url", server_url, "security", BEARER,
                     "paths", paths, "components", components(document));
}

json_t *describe_openapi(const struct config *config, const char *server_url)
{
    (void)config;
    return describe(server_url, DOCUMENT_FULL);
}

json_t *describe_actions(const struct config *config, const char *server_url)
{
    (void)config;
    return describe(server_url, DOCUMENT_ACTIONS);
}
