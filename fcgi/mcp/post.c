/* Which messages a POST has, which method each names, and their answers together: one, a batch, or an event
 * stream that begins with notifications. Methods are rows. It knows tools through tools.h and their work
 * through dispatch.h; sessions it does not have. */
#include "fcgi/mcp/post.h"

#include "fcgi/audited.h"
#include "fcgi/auth.h"
#include "fcgi/body.h"
#include "fcgi/mcp/hello.h"
#include "fcgi/mcp/notify.h"
#include "fcgi/mcp/tools.h"

#define BATCH_MAX   64
#define BATCH_BYTES (1u << 20) /* the answers of a batch, together */

/* One message of a POST and its answer. */
struct slot {
    struct post *post;
    json_t *id;
    enum era era;
    const struct op *op;
    struct flight *flight;
    enum notify_level least;
    int status;         /* HTTP, where the message stands alone */
    struct buffer text; /* the answer; empty = none (a notification) */
};
struct post {
    struct service *service;
    struct exchange *exchange;
    struct principal principal;
    char *sets;
    bool batch;
    bool streams;  /* server-sent events: notifications, then the answer */
    size_t length; /* of a batch's answers so far */
    size_t open;   /* answers still to come, and one while the messages are read */
    size_t count;
    struct slot *slots;
};

static void post_free(struct post *p)
{
    for (size_t i = 0; i < p->count; i++) {
        json_decref(p->slots[i].id);
        buffer_free(&p->slots[i].text);
    }
    free(p->slots);
    principal_clear(&p->principal);
    free(p->sets);
    free(p);
}

/* ---- answers ---- */

static void reply_batch(struct post *p)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    for (size_t i = 0; i < p->count; i++) {
        if (p->slots[i].text.length == 0)
            continue;
        buffer_append_char(&out, out.length ? ',' : '[');
        buffer_append(&out, p->slots[i].text.data, p->slots[i].text.length);
    }
    if (out.length == 0) {
        p->exchange->carrier->reply(p->exchange, 202, NULL, NULL, "", 0);
        return;
    }
    buffer_append_char(&out, ']');
    p->exchange->carrier->reply(p->exchange, 200, "application/json", NULL, out.data, out.length);
}

/* A message as an event: JSON of one line, as everything here. */
static void send_event(struct exchange *x, const struct buffer *message)
{
    _cleanup_buffer_ struct buffer event = BUFFER_INIT;
    buffer_append_text(&event, "event: message\ndata: ");
    buffer_append(&event, message->data, message->length);
    buffer_append_text(&event, "\n\n");
    x->carrier->stream(x, event.data, event.length);
}

static void close_one(struct post *p)
{
    if (--p->open > 0)
        return;
    if (p->batch) {
        reply_batch(p);
    } else if (p->streams) {
        send_event(p->exchange, &p->slots[0].text);
        p->exchange->carrier->stream_finish(p->exchange);
    } else if (p->slots[0].text.length == 0) {
        p->exchange->carrier->reply(p->exchange, 202, NULL, NULL, "", 0);
    } else {
        struct slot *only = &p->slots[0];
        p->exchange->carrier->reply(p->exchange, only->status, "application/json", NULL, only->text.data,
                                    only->text.length);
    }
    post_free(p);
}

static void slot_error(struct slot *slot, const struct rpc_error *err)
{
    slot->status = err->status;
    rpc_append_error(&slot->text, slot->id, err);
}

/* What was done is done: only its answer is too long, beside the others. */
static void bound_batch(struct slot *slot)
{
    struct post *p = slot->post;
    if (!p->batch)
        return;
    if (p->length + slot->text.length > BATCH_BYTES) {
        _cleanup_rpc_error_ struct rpc_error err = RPC_ERROR_INIT;
        rpc_error_set(
            &err, 200, RPC_INTERNAL,
            "The answers of a batch have %u bytes together at most: this was done, its answer found "
            "no room; ask for it alone",
            BATCH_BYTES);
        buffer_free(&slot->text);
        slot_error(slot, &err);
    }
    p->length += slot->text.length;
}

/* A page that says where to go on is made no longer than its share. */
static void share_room(const struct post *p, json_t *in)
{
    json_int_t share = BATCH_BYTES / (json_int_t)p->count;
    if (p->batch && json_integer_value(json_object_get(in, "max_bytes")) > share)
        json_object_set_new(in, "max_bytes", json_integer(share));
}

static void stream_started(struct slot *slot)
{
    struct exchange *x = slot->post->exchange;
    _cleanup_buffer_ struct buffer message = BUFFER_INIT;
    slot->post->streams = true;
    x->carrier->stream_begin(x, 200, "text/event-stream", "X-Accel-Buffering: no\r\n");
    if (notify_started(&message, slot->least, slot->op))
        send_event(x, &message);
}

static void stream_ended(struct slot *slot, bool failed, const char *text, size_t length,
                         const struct error *err)
{
    _cleanup_buffer_ struct buffer message = BUFFER_INIT;
    if (slot->post->streams && notify_ended(&message, slot->least, slot->op, failed, text, length, err))
        send_event(slot->post->exchange, &message);
}

static void take_answer(void *user, struct flight *f, const char *text, size_t length,
                        const struct error *err)
{
    struct slot *slot = user;
    bool failed = f && f->failed;
    slot->flight = NULL;
    stream_ended(slot, failed, text, length, err);
    rpc_begin_result(&slot->text, slot->id);
    if (err)
        mcp_append_call_error(&slot->text, slot->era, err);
    else
        mcp_append_call_result(&slot->text, slot->op, slot->era, &f->blocks, failed, text, length);
    buffer_append_char(&slot->text, '}');
    bound_batch(slot);
    close_one(slot->post);
}

static const struct dispatch_sink slot_sink = { .answer = take_answer };

static void gone(struct exchange *x, void *user)
{
    (void)x;
    struct post *p = user;
    for (size_t i = 0; i < p->count; i++) {
        if (p->slots[i].flight)
            dispatch_abandon(p->slots[i].flight);
    }
    post_free(p);
}

/* ---- methods ---- */

static char *instructions_of(const struct slot *slot)
{
    struct service *s = slot->post->service;
    return hello_instructions(s->tools, config_prefix(s->config), slot->post->sets);
}

static int do_initialize(struct slot *slot, const struct rpc_message *m, struct rpc_error *err)
{
    (void)err;
    _cleanup_free_ char *instructions = instructions_of(slot);
    hello_append_initialize(&slot->text, m, instructions);
    return 0;
}

static int do_ping(struct slot *slot, const struct rpc_message *m, struct rpc_error *err)
{
    (void)m;
    (void)err;
    buffer_append_text(&slot->text, "{}");
    return 0;
}

static int do_discover(struct slot *slot, const struct rpc_message *m, struct rpc_error *err)
{
    (void)m;
    (void)err;
    _cleanup_free_ char *instructions = instructions_of(slot);
    hello_append_discover(&slot->text, slot->era, instructions);
    return 0;
}

/* There is no session to remember it: a call that wants notifications says so itself (notify.h). */
static int do_set_level(struct slot *slot, const struct rpc_message *m, struct rpc_error *err)
{
    enum notify_level level;
    if (!notify_level_find(json_object_get(m->params, "level"), &level))
        return rpc_error_set(err, 200, RPC_INVALID_PARAMS, "Invalid params: level is none of RFC 5424");
    buffer_append_text(&slot->text, "{}");
    return 0;
}

static int do_list(struct slot *slot, const struct rpc_message *m, struct rpc_error *err)
{
    const json_t *cursor = json_object_get(m->params, "cursor");
    if (cursor && json_string_length(cursor) > 0)
        return rpc_error_set(err, 200, RPC_INVALID_PARAMS,
                             "Invalid params: the cursor is not one of this server");
    const struct buffer *list = mcp_tools_list(slot->post->service->tools, slot->post->sets);
    buffer_append_char(&slot->text, '{');
    mcp_append_result_head(&slot->text, slot->era);
    if (era_is_modern(slot->era))
        buffer_printf(&slot->text, "\"ttlMs\":%d,\"cacheScope\":\"public\",", MCP_TTL_MS);
    buffer_append_text(&slot->text, "\"tools\":");
    buffer_append(&slot->text, list->data, list->length);
    buffer_append_char(&slot->text, '}');
    return 0;
}

static bool takes_events(const struct request *r)
{
    const char *accept = request_header(r, "accept");
    return accept && strcasestr(accept, "text/event-stream");
}

static int check_arguments(const struct op *op, const json_t *given, json_t **ret, struct error *err)
{
    json_auto_t *none = json_object();
    for (const struct field *row = op->params; row->name; row++)
        if (row->http_only && json_is_true(json_object_get(given, row->name)))
            return error_set(err, ERROR_VALIDATION, "%s: is for HTTP alone, and no argument of a tool",
                             row->name);
    return field_check(op->params, "arguments", NULL, given ? given : none, ret, err);
}

/* Problems of the arguments are told to the model, as every error of the operation itself. */
static int do_call(struct slot *slot, const struct rpc_message *m, struct rpc_error *err)
{
    struct post *p = slot->post;
    const char *name = json_string_value(json_object_get(m->params, "name"));
    const json_t *given = json_object_get(m->params, "arguments");
    if (!name)
        return rpc_error_set(err, 200, RPC_INVALID_PARAMS,
                             "Invalid params: name must be the name of a tool, as tools/list tells it");
    slot->op = op_find_tool(name);
    if (!slot->op || (slot->op->flags & OP_REST_ONLY))
        return rpc_error_set(err, 200, RPC_INVALID_PARAMS, "Unknown tool: %.100s", name);
    if (given && !json_is_object(given))
        return rpc_error_set(err, 200, RPC_INVALID_PARAMS, "Invalid params: arguments must be an object");
    if (era_is_modern(slot->era) &&
        mcp_tools_check_headers(p->service->tools, slot->op, p->exchange->request, given, err) < 0)
        return -1;
    if (notify_level_of(m, &slot->least, err) < 0)
        return -1;
    json_t *in = NULL;
    _cleanup_error_ struct error problem = ERROR_INIT;
    buffer_free(&slot->text);
    p->open++;
    if (slot->least != NOTIFY_NONE && !p->batch && takes_events(p->exchange->request))
        stream_started(slot);
    if (check_arguments(slot->op, given, &in, &problem) < 0) {
        audited_refusal(slot->op, &p->principal, CALL_MCP, given, p->exchange, &problem);
        take_answer(slot, NULL, NULL, 0, &problem);
        return 1;
    }
    share_room(p, in);
    struct dispatch_request request = { .op = slot->op,
                                        .principal = &p->principal,
                                        .form = CALL_MCP,
                                        .in = in,
                                        .request_id = p->exchange->request_id,
                                        .started_us = p->exchange->started_us,
                                        .backlog = exchange_backlog(p->exchange),
                                        .peer = p->exchange->request->peer };
    slot->flight = dispatch_start(p->service, &request, &slot_sink, slot);
    return 1;
}

enum { METHOD_LEGACY = 1, METHOD_MODERN = 2, METHOD_ALONE = 4 /* not in a batch */ };
static const struct method {
    const char *name;
    unsigned flags;
    /* Appends the result: 0; 1 = the answer comes by itself; -1 = err. */
    int (*run)(struct slot *slot, const struct rpc_message *m, struct rpc_error *err);
} methods[] = {
    { "initialize", METHOD_LEGACY | METHOD_ALONE, do_initialize },
    { "ping", METHOD_LEGACY, do_ping },
    { "server/discover", METHOD_MODERN, do_discover },
    { "logging/setLevel", METHOD_LEGACY, do_set_level },
    { "tools/list", METHOD_LEGACY | METHOD_MODERN, do_list },
    { "tools/call", METHOD_LEGACY | METHOD_MODERN, do_call },
};

static const struct method *find_method(const char *name, enum era era)
{
    unsigned wanted = era_is_modern(era) ? METHOD_MODERN : METHOD_LEGACY;
    for (size_t i = 0; i < N_ELEMENTS(methods); i++) {
        if (strcmp(methods[i].name, name) == 0)
            return methods[i].flags & wanted ? &methods[i] : NULL;
    }
    return NULL;
}

/* ---- messages ---- */

static int run_message(struct slot *slot, const json_t *value, struct rpc_error *err)
{
    struct rpc_message m;
    int rc = rpc_read(value, &m, err);
    slot->id = json_incref((json_t *)m.id);
    if (rc < 0)
        return -1;
    if (m.kind != RPC_REQUEST)
        return 0;
    if (era_select(slot->post->exchange->request, &m, &slot->era, err) < 0)
        return -1;
    const struct method *method = find_method(m.method, slot->era);
    if (!method)
        return rpc_error_set(err, era_is_modern(slot->era) ? 404 : 200, RPC_METHOD_NOT_FOUND,
                             "Method not found: %.100s", m.method);
    if (slot->post->batch && (method->flags & METHOD_ALONE))
        return rpc_error_set(err, 400, RPC_INVALID_REQUEST, "Invalid request: %s must not be in a batch",
                             m.method);
    slot->status = 200;
    rpc_begin_result(&slot->text, slot->id);
    rc = method->run(slot, &m, err);
    if (rc == 0) {
        buffer_append_char(&slot->text, '}');
        bound_batch(slot);
    } else if (rc < 0) {
        buffer_free(&slot->text);
    }
    return rc;
}

static void run_slot(struct slot *slot, const json_t *value)
{
    _cleanup_rpc_error_ struct rpc_error err = RPC_ERROR_INIT;
    if (run_message(slot, value, &err) < 0)
        slot_error(slot, &err);
}

static void run_post(struct post *p, const json_t *body)
{
    p->open = 1;
    for (size_t i = 0; i < p->count; i++)
        run_slot(&p->slots[i], p->batch ? json_array_get(body, i) : body);
    if (p->open > 1) {
        p->exchange->user = p;
        p->exchange->on_gone = gone;
        exchange_shed(p->exchange);
    }
    close_one(p);
}

static void reject_rpc(struct exchange *x, int status, int code, const char *message)
{
    _cleanup_rpc_error_ struct rpc_error err = RPC_ERROR_INIT;
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    rpc_error_set(&err, status, code, "%s", message);
    rpc_append_error(&out, NULL, &err);
    x->carrier->reply(x, status, "application/json", NULL, out.data, out.length);
}

static void take_body(void *user, struct exchange *x, json_t *value, const struct error *err)
{
    json_auto_t *body = value;
    struct post *p = user;
    p->exchange = x;
    p->batch = json_is_array(body);
    p->count = p->batch ? json_array_size(body) : 1;
    if (x && err) {
        bool parse = err->code == ERROR_INVALID;
        reject_rpc(x, parse ? 400 : error_status(err->code), parse ? RPC_PARSE_ERROR : RPC_INVALID_REQUEST,
                   err->message);
    } else if (x && p->batch && (p->count == 0 || p->count > BATCH_MAX || !era_takes_batches(x->request))) {
        reject_rpc(x, 400, RPC_INVALID_REQUEST,
                   "Invalid request: one message is expected, or in revisions that have batches up to 64");
    } else if (x) {
        p->slots = xcalloc(p->count, sizeof(*p->slots));
        for (size_t i = 0; i < p->count; i++)
            p->slots[i].post = p;
        run_post(p, body);
        return;
    }
    p->count = 0;
    post_free(p);
}

void post_begin(struct service *s, struct exchange *x, struct principal *principal, const char *sets)
{
    struct post *p = xcalloc(1, sizeof(*p));
    p->service = s;
    p->principal = *principal;
    *principal = (struct principal){ 0 };
    p->sets = xstrdup(sets);
    body_parse(s->loop, x, take_body, p);
}
