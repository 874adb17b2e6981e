/* Whole requests at a living installation, drawn from the table of operations: every operation, every field,
 * right and wrong, in sequences with ids that are real, by REST and by MCP, through the web server. Only
 * answers that are documented are taken, no worker may die, no sanitizer may speak, and in the end nothing
 * may be left.
 *
 * http_fuzzer [SECONDS [SEED]]: 25 seconds and a fixed seed where none is given. The seed is printed. */
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/base/utf8.h"
#include "lib/op/op.h"
#include "tests/fuzz/values.h"
#include "tests/support/instance.h"
#include "tests/support/must.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>

enum { IDS = 4, EXECS = 24, WORKERS_MOST = 16, URL_MOST = 7000, TEXT_MOST = 90000 };
#define SEED_FIXED 20260101u

static struct instance *the;
static struct dice dice;
static json_t *document; /* openapi.json as the gateway gives it */
static char workspaces[IDS][ID_SIZE], execs[EXECS][ID_SIZE];
static size_t workspace_count, exec_count, requests, refused, by_status[600];
static pid_t workers[WORKERS_MOST];
static size_t worker_count;

/* The request under way, told where something is wrong. */
static struct shot {
    const struct op *op;
    bool mcp, streams, asks_size;
    struct buffer path, body;
    bool has_body;
    const char *content_type, *token;
    const char *headers[8];
    size_t header_count;
    char lines[8][160];
} shot;
static bool finished;

static void tell(void)
{
    if (finished)
        return;
    fprintf(stderr, "request %zu: %s %s %s\n", requests, shot.op != NULL ? shot.op->id : "",
            shot.mcp ? "(MCP)" : "", shot.path.length > 0 ? buffer_text(&shot.path) : "");
    for (size_t i = 0; i < shot.header_count; i++)
        fprintf(stderr, "%s\n", shot.headers[i]);
    if (shot.has_body)
        fprintf(stderr, "%zu bytes: %.3000s\n", shot.body.length, buffer_text(&shot.body));
}

/* ---- ids ---- */

static void note_id(char ids[][ID_SIZE], size_t *count, size_t most, const char *id)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(ids[i], id) == 0)
            return;
    size_t at = *count < most ? (*count)++ : dice_roll(&dice, (unsigned)most);
    snprintf(ids[at], ID_SIZE, "%s", id);
}

static void forget_workspace(const char *id)
{
    for (size_t i = 0; i < workspace_count; i++)
        if (strcmp(workspaces[i], id) == 0)
            memmove(workspaces[i], workspaces[--workspace_count], ID_SIZE);
}

/* Real ones mostly. */
static bool append_id(const char *name, struct buffer *out)
{
    bool workspace = strcmp(name, "workspace_id") == 0, exec = strcmp(name, "exec_id") == 0;
    size_t count = workspace ? workspace_count : exec ? exec_count : 0;
    if (count == 0 || dice_one_in(&dice, 12))
        return false;
    const char *id =
        workspace ? workspaces[dice_roll(&dice, (unsigned)count)] : execs[dice_roll(&dice, (unsigned)count)];
    buffer_printf(out, "\"%s\"", id);
    return true;
}

/* ---- one value ---- */

static const char *const commands[] = {
    "true",
    "exit 3",
    "echo out; echo err >&2",
    "cat",
    "sleep 0.3; echo late",
    "printf '\\377\\000\\342\\202'",
    "yes \\\"quoted\\\" | head -c 200000",
    "seq 20000",
    "kill -9 $$",
    "(sleep 1; echo behind) & exit 0",
    "read x; echo $x",
    "stty size; tty",
    "echo $A$B; pwd",
    "head -c 100000 /dev/urandom",
    "printf '\\\\033[1m\\\\u20ac'",
    "sleep 20",
};

/* A right value that does not cost minutes. */
static void append_right(const struct field *row, struct buffer *out)
{
    if (append_id(row->name, out))
        return;
    if (strcmp(row->name, "command") == 0 && !dice_one_in(&dice, 20))
        buffer_printf(out, "\"%s\"", commands[dice_roll(&dice, N_ELEMENTS(commands) - 1)]);
    else if (strcmp(row->name, "wait_seconds") == 0 && !dice_one_in(&dice, 200))
        buffer_append_text(out, dice_roll(&dice, 3) ? "0" : "0.2");
    else if (strncmp(row->name, "memory", 6) == 0 && dice_roll(&dice, 2))
        buffer_append_text(out, strcmp(row->name, "memory_mib") == 0 ? "512" : "1024");
    else
        value_append_right(&dice, row, out);
}

/* What the local driver refuses anyway is given less often. */
static bool is_given(const struct field *row, unsigned wrongs)
{
    static const char *const seldom[] = { "gpu",
                                          "cloud",
                                          "region",
                                          "image_name",
                                          "image_id",
                                          "apt_packages",
                                          "pip_packages",
                                          "secret_names",
                                          "volumes",
                                          "outbound_cidr_allowlist",
                                          "outbound_domain_allowlist",
                                          "inbound_cidr_allowlist",
                                          "tail",
                                          "stream" };
    if (row->required)
        return wrongs == 0 || !dice_one_in(&dice, 25);
    for (size_t i = 0; i < N_ELEMENTS(seldom); i++)
        if (strcmp(row->name, seldom[i]) == 0)
            return dice_one_in(&dice, 25);
    return dice_one_in(&dice, 3);
}

static void append_value(const struct field *row, unsigned wrongs, struct buffer *out)
{
    if (wrongs > 0 && dice_one_in(&dice, wrongs))
        value_append_wrong(&dice, row, out);
    else
        append_right(row, out);
}

/* ---- a request ---- */

static bool in_path(const struct op *op, const char *name)
{
    _cleanup_free_ char *braced = xasprintf("{%s}", name);
    return strstr(op->path, braced) != NULL;
}

static bool has_body(const struct op *op)
{
    return strcmp(op->method, "GET") != 0 && strcmp(op->method, "DELETE") != 0;
}

static void add_header(const char *name, const char *value)
{
    char *line = shot.lines[shot.header_count];
    snprintf(line, sizeof(shot.lines[0]), "%s: %s", name, value);
    shot.headers[shot.header_count++] = line;
    shot.headers[shot.header_count] = NULL;
}

static void make_path(const struct op *op, unsigned wrongs)
{
    buffer_append_text(&shot.path, "/api");
    for (const char *at = op->path; *at != '\0';) {
        if (*at != '{') {
            buffer_append_char(&shot.path, *at++);
            continue;
        }
        size_t length = strcspn(at, "}");
        _cleanup_free_ char *name = xstrndup(at + 1, length - 1);
        _cleanup_buffer_ struct buffer value = BUFFER_INIT;
        const struct field *row = field_find(op->params, name);
        append_value(row, wrongs, &value);
        value_append_query(&dice, buffer_text(&value), value.length, &shot.path);
        at += length + 1;
    }
}

static void note_member(const char *name, const char *value)
{
    shot.asks_size |= strcmp(name, "max_bytes") == 0;
    shot.streams |= strcmp(name, "stream") == 0 && strcmp(value, "false") != 0;
}

/* Members of what the operation takes outside its path, as JSON or as a query. */
static void make_members(const struct op *op, unsigned wrongs, bool query, bool all, struct buffer *out)
{
    size_t count = 0;
    for (const struct field *row = op->params; row->name != NULL; row++) {
        if ((!all && in_path(op, row->name)) || !is_given(row, wrongs))
            continue;
        unsigned times = wrongs > 0 && dice_one_in(&dice, 40) ? 2 : 1;
        for (unsigned i = 0; i < times; i++) {
            _cleanup_buffer_ struct buffer value = BUFFER_INIT;
            append_value(row, wrongs, &value);
            note_member(row->name, buffer_text(&value));
            buffer_printf(out, query ? "%s%s=" : "%s\"%s\":",
                          count++ == 0 ? ""
                          : query      ? "&"
                                       : ",",
                          row->name);
            if (query)
                value_append_query(&dice, value.data, value.length, out);
            else
                buffer_append(out, value.data, value.length);
        }
    }
    if (wrongs > 0 && dice_one_in(&dice, 15))
        buffer_printf(out, query ? "%sno_such=1" : "%s\"no_such\":1", count == 0 ? "" : query ? "&" : ",");
}

static void spoil_body(void)
{
    static const char *const bodies[] = { "",       "[]",      "null",           "\"x\"",          "7",
                                          "{",      "{}{}",    "\xEF\xBB\xBF{}", "\xFF",           "{\"a\":}",
                                          "<xml/>", "a=b&c=d", "\n\n",           "{\"\\u0000\":1}" };
    static const char *const types[] = { "text/plain",
                                         "application/x-www-form-urlencoded",
                                         "application/json; charset=latin1",
                                         "APPLICATION/JSON",
                                         "application/jsonx",
                                         "multipart/form-data; boundary=x" };
    switch (dice_roll(&dice, 3)) {
    case 0:
        shot.body.length = 0;
        buffer_append_text(&shot.body, bodies[dice_roll(&dice, N_ELEMENTS(bodies))]);
        break;
    case 1:
        shot.body.length = dice_roll(&dice, (unsigned)shot.body.length + 1);
        break;
    default:
        shot.content_type = types[dice_roll(&dice, N_ELEMENTS(types))];
    }
}

static void make_body(const struct op *op, unsigned wrongs)
{
    shot.has_body = true;
    buffer_append_char(&shot.body, '{');
    make_members(op, wrongs, false, false, &shot.body);
    buffer_append_char(&shot.body, '}');
    if (wrongs > 0 && dice_one_in(&dice, 20))
        spoil_body();
}

static void make_headers(void)
{
    static const char *const keys[] = { "key-1", "key-2", "k", "with space", "", "\xE2\x82\xAC" };
    static const char *const accepts[] = { "text/event-stream", "*/*", "application/json", "text/html;q=0.9",
                                           "x" };
    static const char *const lasts[] = { "3", "0", "-1", "99999999999", "x" };
    if (dice_one_in(&dice, 20))
        add_header("Idempotency-Key", keys[dice_roll(&dice, N_ELEMENTS(keys))]);
    if (dice_one_in(&dice, 20)) {
        const char *accept = accepts[dice_roll(&dice, N_ELEMENTS(accepts))];
        shot.streams |= strcmp(accept, "text/event-stream") == 0;
        add_header("Accept", accept);
    }
    if (dice_one_in(&dice, 30))
        add_header("Last-Event-ID", lasts[dice_roll(&dice, N_ELEMENTS(lasts))]);
    if (dice_one_in(&dice, 60))
        add_header("X-Request-Id", dice_roll(&dice, 2) ? "fine-id.1" : "with blank and \xC3\xA9");
    if (dice_one_in(&dice, 60))
        shot.token = dice_roll(&dice, 2) ? "" : "not-the-token";
}

static void make_rest(const struct op *op, unsigned wrongs)
{
    make_path(op, wrongs);
    if (has_body(op)) {
        make_body(op, wrongs);
    } else {
        _cleanup_buffer_ struct buffer query = BUFFER_INIT;
        make_members(op, wrongs, true, false, &query);
        if (query.length > 0) {
            buffer_append_char(&shot.path, '?');
            buffer_append(&shot.path, query.data, query.length);
        }
    }
    make_headers();
}

static void make_mcp(const struct op *op, unsigned wrongs)
{
    static const char *const versions[] = { "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25" };
    shot.mcp = shot.has_body = true;
    buffer_append_text(&shot.path, "/mcp/");
    buffer_printf(&shot.body,
                  "{\"jsonrpc\":\"2.0\",\"id\":%zu,\"method\":\"tools/"
                  "call\",\"params\":{\"name\":\"%s\",\"arguments\":{",
                  requests, op->tool);
    make_members(op, wrongs, false, true, &shot.body);
    buffer_append_text(&shot.body, "}}}");
    add_header("Accept", "application/json, text/event-stream");
    add_header("MCP-Protocol-Version", versions[dice_roll(&dice, N_ELEMENTS(versions))]);
}

static void forget_shot(void)
{
    buffer_free(&shot.path);
    buffer_free(&shot.body);
    shot = (struct shot){ 0 };
}

static void make_shot(void)
{
    size_t count = 0;
    while (ops[count] != NULL)
        count++;
    forget_shot();
    shot.op = ops[dice_roll(&dice, (unsigned)count)];
    if (workspace_count == 0 && dice_roll(&dice, 4))
        shot.op = op_find("createRemoteWorkspace");
    /* Half of the requests are right, in others one of eight values is wrong, in some every other one. */
    unsigned wrongs = dice_roll(&dice, 2) ? 0 : dice_one_in(&dice, 4) ? 2 : 8;
    if (shot.op->tool != NULL && dice_one_in(&dice, 5))
        make_mcp(shot.op, wrongs);
    else
        make_rest(shot.op, wrongs);
}

/* ---- the answer ---- */

static bool is_declared(const struct op *op, long status)
{
    char text[16], method[8];
    _cleanup_free_ char *path = xasprintf("/api%s", op->path);
    snprintf(text, sizeof(text), "%ld", status);
    snprintf(method, sizeof(method), "%s", op->method);
    for (char *at = method; *at != '\0'; at++)
        *at |= 0x20;
    const json_t *operation =
        json_object_get(json_object_get(json_object_get(document, "paths"), path), method);
    must(operation != NULL, "the document has not %s %s", method, path);
    return json_object_get(json_object_get(operation, "responses"), text) != NULL;
}

/* A path parameter may be what the web server refuses itself, or what makes it another path. */
static bool is_other_place(long status)
{
    return status == 404 || status == 400 || status == 405 || status == 414 || status == 431;
}

static void check_status(long status)
{
    must(status != 500 && status != 502 && status != 504 && status != 507, "status %ld", status);
    if (shot.mcp)
        must(status == 200 || status == 202 || status == 400 || status == 413 || status == 415,
             "MCP: status %ld", status);
    else
        must(is_declared(shot.op, status) || is_other_place(status), "%s: status %ld is not declared",
             shot.op->id, status);
}

static void check_headers(const struct answer *a)
{
    char value[200];
    bool ours = answer_header(a, "X-Request-Id", value, sizeof(value)) != NULL;
    if (!ours) { /* the web server's own */
        must(is_other_place(a->status) || a->status == 413, "status %ld without X-Request-Id", a->status);
        return;
    }
    must(answer_header(a, "Cache-Control", value, sizeof(value)) && strstr(value, "no-store"),
         "no Cache-Control");
    must(answer_header(a, "X-Content-Type-Options", value, sizeof(value)) != NULL,
         "no X-Content-Type-Options");
    must(a->status != 401 || answer_header(a, "WWW-Authenticate", value, sizeof(value)),
         "401 without WWW-Authenticate");
    must(a->status != 405 || answer_header(a, "Allow", value, sizeof(value)), "405 without Allow");
    must(a->status != 429 || answer_header(a, "Retry-After", value, sizeof(value)),
         "429 without Retry-After");
    must(!answer_header(a, "X-Injected", value, sizeof(value)), "a header was injected");
}

/* The result of a call as an object (a new reference); older revisions have it as text alone. NULL: it
 * failed. */
static json_t *mcp_result(const struct answer *a)
{
    const json_t *result = json_object_get(a->json, "result");
    json_t *structured = json_object_get(result, "structuredContent");
    const json_t *text = json_object_get(json_array_get(json_object_get(result, "content"), 0), "text");
    if (json_is_true(json_object_get(result, "isError")))
        return NULL;
    return structured != NULL
               ? json_incref(structured)
               : json_loadb(json_string_value(text), json_string_length(text), JSON_ALLOW_NUL, NULL);
}

static void check_mcp(const struct answer *a)
{
    const json_t *result = json_object_get(a->json, "result"), *item;
    struct error err = ERROR_INIT;
    size_t index;
    must(a->json != NULL, "MCP: status %ld and no JSON: %.200s", a->status, a->body);
    if (result == NULL) {
        must(json_is_object(json_object_get(a->json, "error")), "MCP: neither result nor error: %.300s",
             a->body);
        return;
    }
    must(json_is_string(json_object_get(json_array_get(json_object_get(result, "content"), 0), "text")),
         "MCP: no text: %.300s", a->body);
    json_auto_t *value = mcp_result(a);
    must(value != NULL || json_is_true(json_object_get(result, "isError")), "MCP: no result: %.300s",
         a->body);
    if (value == NULL)
        return;
    if ((shot.op->flags & OP_LIST) == 0)
        must(field_check_result(shot.op->result, value, &err) == 0, "MCP: %s: %s", shot.op->id, err.message);
    const json_t *list = json_is_array(value) ? value : json_object_get(value, "result");
    json_array_foreach(list, index, item) {
        must((shot.op->flags & OP_LIST) == 0 || field_check_result(shot.op->result, item, &err) == 0,
             "MCP: %s: %s", shot.op->id, err.message);
    }
}

static void note_answer(const struct answer *a)
{
    json_auto_t *of = a->status >= 400 ? NULL : shot.mcp ? mcp_result(a) : json_incref(a->json);
    const char *ws = json_string_value(json_object_get(of, "workspace_id"));
    const char *ex = json_string_value(json_object_get(of, "exec_id"));
    if (ws != NULL && shot.op->action == OP_ACTION_CREATE)
        note_id(workspaces, &workspace_count, IDS, ws);
    if (ws != NULL && shot.op->action == OP_ACTION_TERMINATE)
        forget_workspace(ws);
    if (ex != NULL)
        note_id(execs, &exec_count, EXECS, ex);
}

static bool has_no_body(void)
{
    return !shot.mcp && strcmp(shot.op->method, "HEAD") == 0;
}

static void check_answer(const struct answer *a)
{
    by_status[a->status]++;
    refused += a->status >= 400;
    check_status(a->status);
    check_headers(a);
    must(strstr(a->body, instance_state(the)) == NULL, "the answer has a path of the host: %.500s", a->body);
    if (shot.mcp && a->status == 200)
        check_mcp(a);
    if (a->status == 422)
        must(shot.mcp || has_no_body() || json_is_array(json_object_get(a->json, "detail")),
             "422 without detail: %.300s", a->body);
    must(shot.asks_size || shot.streams || utf8_count(a->body, a->length) <= TEXT_MOST,
         "%zu bytes are too much", a->length);
    note_answer(a);
}

static void fire(void)
{
    make_shot();
    requests++;
    if (shot.path.length > URL_MOST)
        return;
    /* Where all are taken, one goes first. */
    if (shot.op->action == OP_ACTION_CREATE && workspace_count == IDS) {
        char path[64];
        snprintf(path, sizeof(path), "/api/workspaces/%s", workspaces[0]);
        json_decref(api(the, 200, "DELETE", path, NULL));
        forget_workspace(workspaces[0]);
    }
    const struct http_options options = { .token = shot.token,
                                          .headers = shot.headers,
                                          .content_type = shot.content_type,
                                          .body = shot.has_body ? buffer_text(&shot.body) : NULL,
                                          .length = shot.body.length,
                                          .timeout_ms = shot.streams ? 700 : 45000,
                                          .unchecked = shot.mcp };
    struct answer a = http_send(the, shot.mcp ? "POST" : shot.op->method, buffer_text(&shot.path), &options);
    must(a.status != 0 || shot.streams, "no answer after %.0f ms", a.ms);
    if (a.status != 0)
        check_answer(&a);
    answer_clear(&a);
}

/* ---- the installation ---- */

static int compare_pids(const void *a, const void *b)
{
    return *(const pid_t *)a - *(const pid_t *)b;
}

static size_t find_workers(pid_t pids[static WORKERS_MOST])
{
    size_t count = instance_processes(the, "serve", pids, WORKERS_MOST);
    qsort(pids, count, sizeof(pid_t), compare_pids);
    return count;
}

static void check_workers(void)
{
    pid_t now[WORKERS_MOST];
    size_t count = find_workers(now);
    must(count == worker_count && memcmp(now, workers, count * sizeof(pid_t)) == 0, "a worker died");
}

static void check_log(void)
{
    static const char *const words[] = { "ERROR: AddressSanitizer", "ERROR: LeakSanitizer",
                                         "runtime error:",          "core dumped",
                                         "its keeper died",         "was ended by signal",
                                         "the answer is not what" };
    _cleanup_buffer_ struct buffer log = BUFFER_INIT;
    _cleanup_free_ char *path = xasprintf("%s/../test.log", instance_state(the));
    must_hold(io_read_file(AT_FDCWD, path, 1 << 30, &log, NULL) == 0);
    for (size_t i = 0; i < N_ELEMENTS(words); i++) {
        const char *found = strstr(buffer_text(&log), words[i]);
        must(found == NULL, "the log says: %.1500s", found);
    }
}

static size_t entries_of(const char *name)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", instance_state(the), name);
    DIR *dir = opendir(path);
    size_t count = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* Also those whose answer nobody waited for. */
static void remove_all(void)
{
    size_t count, index;
    do {
        json_auto_t *list = api(the, 200, "GET", "/api/workspaces?state=all&limit=100", NULL);
        const json_t *item;
        count = json_array_size(list);
        json_array_foreach(list, index, item) {
            _cleanup_free_ char *path = xasprintf("/api/workspaces/%s", member_text(item, "workspace_id"));
            json_decref(api(the, 200, "DELETE", path, NULL));
        }
    } while (count > 0);
    must(entries_of("workspaces") == 0 && entries_of("events") == 0, "files or logs are left behind");
}

static void print_figures(unsigned seconds, uint64_t seed)
{
    printf("%zu requests in %u s, %zu refused, seed %llu:", requests, seconds, refused,
           (unsigned long long)seed);
    for (size_t i = 0; i < N_ELEMENTS(by_status); i++)
        if (by_status[i] > 0)
            printf(" %zu: %zu", i, by_status[i]);
    printf("\n");
}

int main(int argc, char **argv)
{
    unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 25;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : SEED_FIXED;
    static const char *const environment[] = { "WORKSPACE_MAX_WORKSPACES=20", "WORKSPACE_LOG_LEVEL=WARNING",
                                               NULL };
    const struct instance_options options = { .environment = environment };
    while (seed == 0)
        id_random(&seed, sizeof(seed));
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    dice.state = seed;
    atexit(tell);
    the = instance_start(&options);
    document = api(the, 200, "GET", "/openapi.json", NULL);
    worker_count = find_workers(workers);
    for (long long end = now_ms() + seconds * 1000LL; now_ms() < end; fire())
        if (requests % 100 == 0)
            check_workers();
    forget_shot();
    check_workers();
    remove_all();
    check_log();
    print_figures(seconds, seed);
    finished = true;
    instance_stop(the);
    json_decref(document);
    return 0;
}
