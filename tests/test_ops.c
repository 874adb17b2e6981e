/* What holds for every row of the table of operations, and the rules between fields. */
#include "lib/op/describe.h"

#include "lib/base/utf8.h"
#include "lib/op/names.h"
#include "lib/schema/formats.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

#define ACTIONS_MAX       30
#define ACTIONS_BYTES_MAX (800 * 1024)

START_TEST(test_unique)
{
    for (const struct op *const *a = ops; *a; a++)
        for (const struct op *const *b = a + 1; *b; b++) {
            ck_assert_str_ne((*a)->id, (*b)->id);
            ck_assert(!(*a)->tool || !(*b)->tool || strcmp((*a)->tool, (*b)->tool) != 0);
            ck_assert_msg(strcmp((*a)->method, (*b)->method) || strcmp((*a)->path, (*b)->path), "%s and %s",
                          (*a)->id, (*b)->id);
        }
}
END_TEST

static void check_route(const struct op *op)
{
    for (const char *at = strchr(op->path, '{'); at; at = strchr(at + 1, '{')) {
        char name[80];
        const struct field *row;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "}"), at + 1);
        row = field_find(op->params, name);
        bool may_lack = op->flags & OP_DEFAULT_WORKSPACE && !strcmp(name, "workspace_id");
        ck_assert_msg(row && (row->required || may_lack) && row->type == FIELD_STRING, "%s: {%s}", op->id,
                      name);
    }
    ck_assert_msg(op->path[0] == '/', "%s: path", op->id);
    ck_assert_msg(!(op->flags & OP_ON_WORKSPACE) || op_path_has(op, "workspace_id"), "%s: workspace", op->id);
}

static void check_texts(const struct op *op)
{
    ck_assert_msg(op->summary && utf8_count(op->summary, strlen(op->summary)) <= 300, "%s: summary", op->id);
    unsigned sets = 0;
    ck_assert_msg(config_parse_toolsets(op->toolset, &sets) == 0 && sets != 0, "%s: toolset", op->id);
    ck_assert_msg(op->title && strlen(op->title) <= 40, "%s: title", op->id);
    _cleanup_free_ char *summary = names_text(op->summary, DOCUMENT_CALL); /* as a terminal shows it */
    ck_assert_msg(!strpbrk(summary, "{[]}"), "%s: %s", op->id, summary);
    ck_assert_msg(op->description && *op->description, "%s: description", op->id);
    ck_assert_msg(!op->tool || strlen(op->tool) <= 64, "%s: tool", op->id);
}

static void check_rows(const struct op *op, const struct field *rows, bool params)
{
    for (const struct field *row = rows; row->name; row++) {
        ck_assert_msg(row->text && *row->text && strlen(row->text) <= 300, "%s.%s: text", op->id, row->name);
        ck_assert_msg(field_find(rows, row->name) == row, "%s.%s twice", op->id, row->name);
        ck_assert_msg(!row->dflt || !row->required, "%s.%s: required, with a default", op->id, row->name);
        if (params && row->dflt) { /* the default is itself a value of the row */
            _cleanup_error_ struct error err = ERROR_INIT;
            const struct field alone[] = { *row, FIELD_END };
            json_auto_t *in = json_pack("{s:o}", row->name, json_loads(row->dflt, JSON_DECODE_ANY, NULL)),
                        *checked = NULL;
            ck_assert_msg(field_check(alone, "body", NULL, in, &checked, &err) == 0, "%s.%s: %s", op->id,
                          row->name, err.message);
        }
    }
}

START_TEST(test_rows)
{
    for (const struct op *const *at = ops; *at; at++) {
        const struct op *op = *at;
        check_route(op);
        check_texts(op);
        ck_assert_msg(op->params && op->result && op->result[0].name, "%s: rows", op->id);
        check_rows(op, op->params, true);
        check_rows(op, op->result, false);
        bool reads = !strcmp(op->method, "GET") || !strcmp(op->method, "HEAD");
        ck_assert_msg(reads == !!(op->flags & OP_READ_ONLY), "%s: GET is read only", op->id);
        ck_assert_msg(op->keep || op->run, "%s: handler", op->id);
        ck_assert_msg(!(op->flags & OP_READ_ONLY) || !(op->flags & (OP_DESTRUCTIVE | OP_CONSEQUENTIAL)),
                      "%s: flags", op->id);
        ck_assert_msg(!!op->tool == !(op->flags & OP_REST_ONLY), "%s: tool", op->id);
        ck_assert_ptr_eq(op_find(op->id), op);
        ck_assert(!op->tool || op_find_tool(op->tool) == op);
    }
    ck_assert_ptr_null(op_find("noSuchOperation"));
    ck_assert_ptr_null(op_find_tool("no_such_tool"));
}
END_TEST

static size_t count_operations(const json_t *document)
{
    size_t count = 0;
    const char *path;
    json_t *item;

    json_object_foreach(json_object_get(document, "paths"), path, item)
        count += json_object_size(item);
    return count;
}

static bool mentions(const char *text, const char *word)
{
    return strstr(text, word) != NULL;
}

/* GPT Actions read one type for each schema. */
static void check_single_types(const json_t *value)
{
    const char *name;
    json_t *member;
    size_t index;

    json_array_foreach(value, index, member)
        check_single_types(member);
    json_object_foreach((json_t *)value, name, member) {
        ck_assert_msg(strcmp(name, "type") || !json_is_array(member), "a list of types");
        check_single_types(member);
    }
}

START_TEST(test_documents)
{
    json_auto_t *openapi = describe_openapi(NULL, "https://a.example"),
                *actions = describe_actions(NULL, "https://a.example");
    char *full = json_dumps(openapi, JSON_INDENT(2)), *flat = json_dumps(actions, JSON_INDENT(2));
    size_t all = 0;

    for (const struct op *const *op = ops; *op; op++)
        all++;
    ck_assert_uint_eq(count_operations(openapi), all);
    ck_assert_uint_le(count_operations(actions), ACTIONS_MAX);
    ck_assert_uint_le(strlen(flat), ACTIONS_BYTES_MAX);
    ck_assert(!mentions(flat, "$ref") && !mentions(flat, "anyOf") && !mentions(flat, "\"header\""));
    check_single_types(actions);
    ck_assert(mentions(flat, "\"x-privacy-policy-url\": \"https://a.example/privacy\""));
    ck_assert(mentions(full, "GatewayBearer") && mentions(full, "Idempotency-Key") &&
              mentions(full, "text/event-stream"));
    free(full);
    free(flat);
}
END_TEST

START_TEST(test_tools)
{
    json_auto_t *all = describe_tools(NULL), *some = describe_tools("repo, workspace"),
                *none = describe_tools("work");
    const json_t *tool;
    size_t index;

    ck_assert_uint_gt(json_array_size(all), 0);
    ck_assert_uint_gt(json_array_size(some), 0);
    ck_assert_uint_eq(json_array_size(none), 0);
    json_array_foreach(all, index, tool) {
        const json_t *hints = json_object_get(tool, "annotations");
        ck_assert_uint_eq(json_object_size(hints), 5);
        ck_assert_str_eq(json_string_value(json_object_get(json_object_get(tool, "inputSchema"), "type")),
                         "object");
        ck_assert_str_eq(json_string_value(json_object_get(json_object_get(tool, "outputSchema"), "type")),
                         "object");
        ck_assert_uint_le(strlen(json_string_value(json_object_get(tool, "description"))), 700);
        ck_assert_ptr_null(
            json_object_get(json_object_get(json_object_get(tool, "inputSchema"), "properties"), "stream"));
    }
}
END_TEST

/* ---- names in texts ---- */

#define DESCRIPTION_MAX 300

struct text_check {
    enum document document;
    const char *at; /* operationId or tool that the text belongs to */
};

static void check_word(const struct text_check *check, const char *word)
{
    const struct op *by_id = op_find(word), *by_tool = op_find_tool(word);
    const struct op *op = by_id ? by_id : by_tool;

    if (!op)
        return;
    ck_assert_msg(document_name(check->document, op) != NULL, "%s: %s is not in this document", check->at,
                  word);
    ck_assert_msg(!strcmp(document_name(check->document, op), word), "%s: %s is another document's name",
                  check->at, word);
}

static void check_text(const struct text_check *check, const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

    ck_assert_msg(!strstr(text, "{{") && !strstr(text, "}}") && !strstr(text, "[[") && !strstr(text, "]]"),
                  "%s: %s", check->at, text);
    ck_assert_msg(check->document == DOCUMENT_TOOLS || utf8_count(text, strlen(text)) <= DESCRIPTION_MAX,
                  "%s: too long: %s", check->at, text);
    for (const char *at = text; *at;) {
        char word[80];
        at += strcspn(at, letters);
        size_t length = strspn(at, letters);
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        check_word(check, word);
        at += length;
    }
}

static void check_all_texts(struct text_check *check, const json_t *value)
{
    const char *key;
    json_t *member;
    size_t index;
    const json_t *id = json_object_get(value, check->document == DOCUMENT_TOOLS ? "name" : "operationId");

    if (json_is_string(id))
        check->at = json_string_value(id);
    json_array_foreach(value, index, member) {
        check_all_texts(check, member);
    }
    json_object_foreach((json_t *)value, key, member) {
        if (json_is_string(member) && (!strcmp(key, "description") || !strcmp(key, "summary")))
            check_text(check, json_string_value(member));
        else
            check_all_texts(check, member);
    }
}

/* Each document names operations as it has them, and none that it has not. */
START_TEST(test_names)
{
    json_t *documents[] = {
        [DOCUMENT_TOOLS] = describe_tools(NULL),
        [DOCUMENT_FULL] = describe_openapi(NULL, "https://a.example"),
        [DOCUMENT_ACTIONS] = describe_actions(NULL, "https://a.example"),
    };
    const char *stop[] = { "workspace_stop", "stopRemoteWorkspace", NULL };

    for (int i = DOCUMENT_TOOLS; i <= DOCUMENT_ACTIONS; i++) {
        struct text_check check = { (enum document)i, "the document" };
        check_all_texts(&check, documents[i]);
        char *text = json_dumps(documents[i], 0);
        _cleanup_free_ char *keep = xasprintf("To keep the files, use %s instead.", stop[i]);
        ck_assert_int_eq(mentions(text, "Left out: your workspace named default"), i == DOCUMENT_TOOLS);
        ck_assert_int_eq(mentions(text, stop[i] ? keep : "To keep the files"), stop[i] != NULL);
        free(text);
        json_decref(documents[i]);
    }
}
END_TEST

/* ---- rules between fields ---- */

static enum error_code check_call(const char *id, const char *text, char message[static 512])
{
    const struct config config = { .driver = (char *)"local", .rtk = (char *)"off" };
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *in = json_loads(text, JSON_ALLOW_NUL, NULL), *checked = NULL;
    const struct op *op = op_find(id);
    enum error_code code = ERROR_NONE;

    ck_assert_msg(in != NULL, "%s", text);
    if (field_check(op->params, "body", NULL, in, &checked, &err) < 0 ||
        (op->check && op->check(&config, checked, &err) < 0))
        code = err.code;
    snprintf(message, 512, "%s", err.message);
    return code;
}

#define EX                                                                                                   \
    "\"workspace_id\":\"ws-00000000000000000000000000000000\",\"exec_id\":\"ex-"                             \
    "00000000000000000000000000000000\""
#define WS "\"workspace_id\":\"ws-00000000000000000000000000000000\""

static const struct {
    const char *id, *in;
    enum error_code code;
    const char *named;
} rules[] = {
    { "createRemoteWorkspace", "{}", ERROR_NONE, "" },
    { "createRemoteWorkspace", "{\"cpu\":8}", ERROR_INVALID, "cpu_limit" },
    { "createRemoteWorkspace", "{\"cpu\":8,\"cpu_limit\":null}", ERROR_NONE, "" },
    { "createRemoteWorkspace", "{\"memory_mib\":9000}", ERROR_INVALID,
      "memory_limit_mib (8192, its default) must not be below memory_mib (9000)" },
    { "createRemoteWorkspace", "{\"memory_limit_mib\":2048}", ERROR_INVALID,
      "memory_limit_mib (2048) must not be below memory_mib (4096)" },
    { "createRemoteWorkspace", "{\"memory_mib\":512.0,\"memory_limit_mib\":512}", ERROR_NONE, "" },
    { "createRemoteWorkspace", "{\"memory_mib\":512.5}", ERROR_VALIDATION, "memory_mib" },
    { "createRemoteWorkspace", "{\"block_network\":true,\"outbound_cidr_allowlist\":[]}", ERROR_INVALID,
      "block_network" },
    { "createRemoteWorkspace", "{\"outbound_cidr_allowlist\":[\"10.0.0.1/24\"]}", ERROR_UNSUPPORTED,
      "outbound_cidr_allowlist" },
    { "createRemoteWorkspace", "{\"outbound_domain_allowlist\":[\"*.*.a\"]}", ERROR_VALIDATION,
      "outbound_domain_allowlist[0]" },
    { "createRemoteWorkspace", "{\"image_name\":\"a\",\"image_id\":\"im-1\"}", ERROR_INVALID, "image_name" },
    { "createRemoteWorkspace", "{\"image_name\":\"a\",\"pip_packages\":[\"b\"]}", ERROR_INVALID,
      "image_name" },
    { "createRemoteWorkspace", "{\"image_name\":\"a\"}", ERROR_UNSUPPORTED, "image_name" },
    { "createRemoteWorkspace", "{\"gpu\":\"A100\"}", ERROR_UNSUPPORTED, "gpu" },
    { "createRemoteWorkspace", "{\"region\":[\"eu\",\"us\"]}", ERROR_UNSUPPORTED, "region" },
    { "createRemoteWorkspace", "{\"region\":7}", ERROR_VALIDATION,
      "region: must be a string or an array or null" },
    { "createRemoteWorkspace", "{\"volumes\":{\"/data\":\"d\"}}", ERROR_UNSUPPORTED, "volumes" },
    { "createRemoteWorkspace", "{\"volumes\":{\"//\":\"d\"}}", ERROR_VALIDATION, "volumes" },
    { "createRemoteWorkspace", "{\"apt_packages\":[\"jq>=1\"]}", ERROR_VALIDATION, "apt_packages[0]" },
    { "createRemoteWorkspace", "{\"apt_packages\":[],\"pip_packages\":[],\"secret_names\":[\"\"]}",
      ERROR_NONE, "" },
    { "createRemoteWorkspace", "{\"secret_names\":[\"GH\"]}", ERROR_UNSUPPORTED, "secret_names" },
    { "createRemoteWorkspace", "{\"tags\":{\"team\":\"a\"}}", ERROR_NONE, "" },
    { "createRemoteWorkspace", "{\"tags\":{\"managed-by\":\"me\"}}", ERROR_CONFLICT, "managed-by" },
    { "createRemoteWorkspace", "{\"tags\":{\"repo-path\":\"/x\"}}", ERROR_CONFLICT, "repo-path" },
    { "createRemoteWorkspace", "{\"environment_name\":\"main\"}", ERROR_NONE, "" },
    { "extendRemoteWorkspace", "{" WS ",\"idle_timeout_seconds\":null}", ERROR_NONE, "" },
    { "extendRemoteWorkspace", "{" WS ",\"timeout_seconds\":null}", ERROR_NONE, "" },
    { "extendRemoteWorkspace", "{" WS "}", ERROR_INVALID, "timeout_seconds, idle_timeout_seconds" },
    { "extendRemoteWorkspace", "{" WS ",\"idle_timeout_seconds\":0}", ERROR_VALIDATION, "at least 60" },
    { "extendRemoteWorkspace", "{" WS ",\"idle_timeout_seconds\":59}", ERROR_VALIDATION,
      "idle_timeout_seconds" },
    { "executeInRemoteWorkspace", "{" WS ",\"command\":\" \\n\"}", ERROR_VALIDATION, "command" },
    { "executeInRemoteWorkspace", "{" WS ",\"command\":\"a\\u0000b\"}", ERROR_VALIDATION, "command" },
    { "executeInRemoteWorkspace", "{" WS ",\"command\":\"a\",\"secret_names\":[\"X\"]}", ERROR_UNSUPPORTED,
      "secret_names" },
    { "executeInRemoteWorkspace", "{" WS ",\"command\":\"a\",\"wait_seconds\":99}", ERROR_NONE, "" },
    { "executeInRemoteWorkspace", "{" WS ",\"command\":\"a\",\"wait_seconds\":-1}", ERROR_VALIDATION,
      "wait_seconds" },
    { "runWorkspaceBash", "{" WS ",\"command\":\"a\",\"wait_seconds\":99}", ERROR_NONE, "" },
    { "runWorkspaceBash", "{" WS ",\"command\":\"a\",\"wait_seconds\":-0.1}", ERROR_VALIDATION,
      "wait_seconds" },
    { "getRealtimeWorkspaceExecEvents", "{" EX ",\"wait_seconds\":99}", ERROR_NONE, "" },
    { "getRealtimeWorkspaceExecEvents", "{" EX ",\"wait_seconds\":-1}", ERROR_VALIDATION, "wait_seconds" },
    { "downloadWorkspaceFile", "{" WS ",\"path\":\"a\",\"range\":\"0-9\"}", ERROR_VALIDATION, "bytes=FIRST" },
    { "downloadWorkspaceFile", "{" WS ",\"path\":\"a\",\"range\":\"bytes=0-9, -5\"}", ERROR_NONE, "" },
    { "startRealtimeWorkspaceExec", "{" WS ",\"command\":\"a\",\"env\":{\"a.b-c\":null}}", ERROR_NONE, "" },
    { "startRealtimeWorkspaceExec", "{" WS ",\"command\":\"a\",\"env\":{\"a=b\":\"c\"}}", ERROR_VALIDATION,
      "env" },
    { "sendRealtimeWorkspaceExecInput", "{" EX "}", ERROR_INVALID, "eof" },
    { "sendRealtimeWorkspaceExecInput", "{" EX ",\"eof\":true}", ERROR_NONE, "" },
    { "sendRealtimeWorkspaceExecInput", "{" EX ",\"data\":\"x\",\"data_base64\":\"eA==\"}", ERROR_INVALID,
      "data_base64" },
    { "sendRealtimeWorkspaceExecInput", "{" EX ",\"data_base64\":\"eA=\"}", ERROR_VALIDATION, "data_base64" },
    { "cancelRealtimeWorkspaceExec", "{" EX ",\"signal_name\":\"sigterm\"}", ERROR_NONE, "" },
    { "cancelRealtimeWorkspaceExec", "{" EX ",\"signal_name\":\"SEGV\"}", ERROR_VALIDATION, "signal_name" },
    { "resizeRealtimeWorkspaceExec", "{" EX ",\"rows\":0,\"cols\":1001}", ERROR_VALIDATION, "and 1 more" },
};

START_TEST(test_rules)
{
    char message[512];
    enum error_code code = check_call(rules[_i].id, rules[_i].in, message);

    ck_assert_msg(code == rules[_i].code, "%s %s: %s \"%s\"", rules[_i].id, rules[_i].in,
                  code ? error_type(code) : "accepted", message);
    ck_assert_msg(strstr(message, rules[_i].named) != NULL, "%s: %s", rules[_i].in, message);
}
END_TEST

/* What the description says of the local driver is what it does. */
START_TEST(test_unsupported)
{
    static const char *const values[][2] = {
        { "gpu", "\"A100\"" },
        { "cloud", "\"aws\"" },
        { "region", "\"eu\"" },
        { "image_name", "\"python\"" },
        { "image_id", "\"im-1\"" },
        { "apt_packages", "[\"jq\"]" },
        { "pip_packages", "[\"six\"]" },
        { "secret_names", "[\"GH\"]" },
        { "volumes", "{\"/data\":\"d\"}" },
        { "outbound_cidr_allowlist", "[\"10.0.0.0/8\"]" },
        { "outbound_domain_allowlist", "[\"example.org\"]" },
        { "inbound_cidr_allowlist", "[\"10.0.0.0/8\"]" },
    };
    size_t told = 0;

    for (const struct field *row = op_find("createRemoteWorkspace")->params; row->name; row++)
        told += strstr(row->text, "(501)") != NULL;
    ck_assert_uint_eq(told, N_ELEMENTS(values));
    for (size_t i = 0; i < N_ELEMENTS(values); i++) {
        char message[512];
        _cleanup_free_ char *in = xasprintf("{\"%s\":%s}", values[i][0], values[i][1]);
        ck_assert_msg(check_call("createRemoteWorkspace", in, message) == ERROR_UNSUPPORTED, "%s: %s", in,
                      message);
        ck_assert_msg(strstr(message, values[i][0]) != NULL, "%s: %s", in, message);
        ck_assert(strstr(field_find(op_find("createRemoteWorkspace")->params, values[i][0])->text, "(501)"));
    }
}
END_TEST

/* null says "none", being left out says "as before". */
START_TEST(test_unset)
{
    const struct field *rows = op_find("extendRemoteWorkspace")->params;
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *without = json_loads("{" WS "}", 0, NULL), *null = json_deep_copy(without), *a = NULL,
                *b = NULL;

    json_object_set_new(null, "idle_timeout_seconds", json_null());
    json_object_set_new(null, "timeout_seconds", json_null());
    ck_assert_int_eq(field_check(rows, "body", NULL, without, &a, &err), 0);
    ck_assert_int_eq(field_check(rows, "body", NULL, null, &b, &err), 0);
    ck_assert_ptr_null(json_object_get(a, "idle_timeout_seconds"));
    ck_assert(json_is_null(json_object_get(b, "idle_timeout_seconds")));
    ck_assert_ptr_null(json_object_get(a, "timeout_seconds"));
    ck_assert(json_is_null(json_object_get(b, "timeout_seconds")));
    json_auto_t *schema = field_row_schema(field_find(rows, "idle_timeout_seconds"));
    ck_assert_ptr_null(json_object_get(schema, "default"));
}
END_TEST

/* The operator's timeout and his word on rtk. */
START_TEST(test_bash)
{
    static const char *const rtk[] = { "off", "on" };
    for (int i = 0; i < 4; i++) {
        const struct config config = { .rtk = (char *)rtk[i / 2], .command_timeout = 33 };
        json_auto_t *in = json_pack("{s:b, s:n}", "rtk", i % 2, "timeout");
        ck_assert_int_eq(op_find("runWorkspaceBash")->check(&config, in, NULL), 0);
        ck_assert_int_eq(json_integer_value(json_object_get(in, "timeout")), 33);
        ck_assert_int_eq(json_is_true(json_object_get(in, "rtk")), i == 3);
        json_object_set_new(in, "timeout", json_integer(5));
        ck_assert_int_eq(op_find("runWorkspaceBash")->check(&config, in, NULL), 0);
        ck_assert_int_eq(json_integer_value(json_object_get(in, "timeout")), 5);
    }
}
END_TEST

START_TEST(test_record)
{
    const struct config config = { .driver = (char *)"local", .rtk = (char *)"off" };
    const struct principal owner = { .name = (char *)"owner" };
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *given = json_pack("{s:{s:s}}", "tags", "team", "a"), *in = NULL, *record = NULL;
    const char *id;

    ck_assert_int_eq(field_check(op_find("createRemoteWorkspace")->params, "body", NULL, given, &in, &err),
                     0);
    record = op_workspace_record(&config, &owner, in);
    id = json_string_value(json_object_get(record, "workspace_id"));
    ck_assert(id_is_valid(ID_WORKSPACE, id));
    ck_assert_str_eq(json_string_value(json_object_get(record, "owner")), "owner");
    ck_assert_str_eq(json_string_value(json_object_get(record, "state")), "creating");
    ck_assert(!strncmp(json_string_value(json_object_get(record, "name")), "workspace-", 10));
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(record, "tags"), "workspace-id")), id);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(record, "tags"), "team")), "a");
    ck_assert(json_equal(json_object_get(record, "spec"), in));
}
END_TEST

START_TEST(test_digest)
{
    json_auto_t *a = json_loads("{\"a\":1,\"b\":{\"c\":2,\"d\":3}}", 0, NULL),
                *b = json_loads("{\"b\":{\"d\":3,\"c\":2},\"a\":1}", 0, NULL);
    char one[ID_HASH_SIZE], two[ID_HASH_SIZE];

    op_digest(ops[0], a, one);
    op_digest(ops[0], b, two);
    ck_assert_str_eq(one, two);
    op_digest(ops[1], b, two);
    ck_assert_str_ne(one, two);
    json_object_set_new(b, "a", json_integer(2));
    op_digest(ops[0], b, two);
    ck_assert_str_ne(one, two);
}
END_TEST

/* Where worker and keeper are not of the same version, or the worker is none. */
START_TEST(test_keeper_checks_again)
{
    static const char *const broken[] = { "{}", "[]", "{\"exec_id\": 7}",
                                          "{\"exec_id\": \"ex-1\", \"data\": []}" };

    for (size_t i = 0; i < N_ELEMENTS(broken); i++)
        for (const struct op *const *op = ops; *op; op++) {
            struct error err = ERROR_INIT;
            json_auto_t *in = json_loads(broken[i], 0, NULL), *ret = NULL;
            if (!(*op)->keep)
                continue;
            ck_assert_int_eq(op_keep(NULL, (*op)->id, in, &ret, &err), -1);
            ck_assert_int_eq(err.code, ERROR_VALIDATION);
            error_clear(&err);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ops");
    TCase *tests = tcase_create("ops");

    tcase_add_test(tests, test_unique);
    tcase_add_test(tests, test_rows);
    tcase_add_test(tests, test_documents);
    tcase_add_test(tests, test_tools);
    tcase_add_loop_test(tests, test_rules, 0, N_ELEMENTS(rules));
    tcase_add_test(tests, test_names);
    tcase_add_test(tests, test_unsupported);
    tcase_add_test(tests, test_unset);
    tcase_add_test(tests, test_bash);
    tcase_add_test(tests, test_record);
    tcase_add_test(tests, test_digest);
    tcase_add_test(tests, test_keeper_checks_again);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
