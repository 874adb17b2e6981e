/* REST: finds the row, collects its parameters from path, query and body, has them checked, and gives the
 * answer an HTTP form. It knows nothing of what an operation does. */
#include "fcgi/rest.h"

#include "fcgi/audited.h"
#include "fcgi/auth.h"
#include "fcgi/body.h"
#include "fcgi/raw.h"
#include "lib/base/log.h"

#include <string.h>

/* One request while its parameters come together. */
struct rest_call {
    struct service *service;
    struct exchange *exchange;
    const struct route *route;
    char **parts;
    struct principal principal;
    json_t *in, *problems;
    const char *where;
};

static void rest_call_free(struct rest_call *c)
{
    free(c->parts);
    principal_clear(&c->principal);
    json_decref(c->in);
    json_decref(c->problems);
    free(c);
}

static void reject(struct exchange *x, const struct error *err, const char *headers)
{
    log_info("request=%s method=%s path=%s status=%d error=%s", x->request_id, x->request->method,
             x->request->path, error_status(err->code), error_type(err->code));
    exchange_reply_error(x, err, headers);
}

static void reject_call(struct rest_call *c, const struct error *err)
{
    audited_refusal(c->route->op, &c->principal, CALL_REST, c->in, c->exchange, err);
    reject(c->exchange, err, NULL);
    rest_call_free(c);
}

/* ---- the answer ---- */

static const char *content_type(const struct flight *f)
{
    return f->form == CALL_SSE ? "text/event-stream" : "application/json";
}

static void answer(void *user, struct flight *f, const char *text, size_t length, const struct error *err)
{
    struct exchange *x = user;
    if (f->begun && err && f->form != CALL_SSE && x->carrier->stream_abort) {
        x->carrier->stream_abort(x);
    } else if (f->begun) {
        if (err && f->form == CALL_SSE) {
            json_auto_t *value = error_to_json(err);
            _cleanup_free_ char *data = json_dumps(value, JSON_COMPACT);
            _cleanup_free_ char *event = xasprintf("event: error\ndata: %s\n\n", data);
            x->carrier->stream(x, event, strlen(event));
        } else if (!err && length > 0) {
            x->carrier->stream(x, text, length);
        }
        x->carrier->stream_finish(x);
    } else if (err) {
        _cleanup_buffer_ struct buffer headers = BUFFER_INIT;
        raw_error_headers(f, err, &headers);
        exchange_reply_error(x, err, headers.length > 0 ? buffer_text(&headers) : NULL);
    } else {
        x->carrier->reply(x, 200, content_type(f), NULL, text, length);
    }
}

static void piece(void *user, struct flight *f, const char *data, size_t length)
{
    struct exchange *x = user;
    if (!f->begun) {
        f->begun = true;
        x->carrier->stream_begin(x, 200, content_type(f), NULL);
    }
    if (length > 0)
        x->carrier->stream(x, data, length);
}

static size_t queued(void *user)
{
    struct exchange *x = user;
    return x->carrier->stream_queued(x);
}

static void head(void *user, struct flight *f, const json_t *value)
{
    struct exchange *x = user;
    _cleanup_buffer_ struct buffer headers = BUFFER_INIT;
    int status = raw_headers(value, &headers);
    f->begun = true;
    x->carrier->stream_begin(x, status, "application/octet-stream", buffer_text(&headers));
}

static void take_more(void *user, bool yes)
{
    struct exchange *x = user;
    if (x->carrier->take_body)
        x->carrier->take_body(x, yes);
}

static const struct dispatch_sink rest_sink = { answer, piece, queued, head, take_more };

static void body(struct exchange *x, void *user, const char *data, size_t length, bool last)
{
    (void)x;
    dispatch_body(user, data, length, last);
}

static void gone(struct exchange *x, void *user)
{
    (void)x;
    dispatch_abandon(user);
}

static void drained(struct exchange *x, void *user)
{
    (void)x;
    dispatch_drained(user);
}

/* ---- parameters ---- */

static void add_problem(struct rest_call *c, const char *where, const char *name, const char *message)
{
    if (!c->problems)
        c->problems = json_array();
    if (json_array_size(c->problems) < 100)
        json_array_append_new(c->problems, json_pack("{s:[s, s], s:s}", "loc", where, name, "msg", message));
}

static bool is_path_parameter(const struct route *route, const char *name)
{
    for (size_t i = 0; i < route->count; i++) {
        if (route->names[i] && strcmp(route->names[i], name) == 0)
            return true;
    }
    return false;
}

static bool row_takes_array(const struct field *row)
{
    return row->type == FIELD_ARRAY || (row->also && row->also->type == FIELD_ARRAY);
}

static json_t *item_from_text(const struct field *row, const char *value, size_t length)
{
    const struct field *array = row->type == FIELD_ARRAY ? row : row->also;
    json_t *item = array->items ? field_from_text(array->items, value, length) : NULL;
    return item ? item : json_stringn(value, length);
}

/* A parameter that is given again makes an array, where the row takes one. */
static void add_again(struct rest_call *c, const struct field *row, const char *name, json_t *before,
                      const char *value, size_t length)
{
    if (!row_takes_array(row)) {
        add_problem(c, "query", name, "is given more than once");
        return;
    }
    if (!json_is_array(before)) {
        json_t *array = json_array();
        json_array_append(array, before);
        json_object_set_new(c->in, name, array);
        before = array;
    }
    json_array_append_new(before, item_from_text(row, value, length));
}

static int take_query(void *user, const char *name, const char *value, size_t length, struct error *err)
{
    (void)err;
    struct rest_call *c = user;
    const struct field *row =
        is_path_parameter(c->route, name) ? NULL : field_find(c->route->op->params, name);
    if (!row || strcmp(c->where, "query") != 0) {
        _cleanup_free_ char *known = field_names(c->route->op->params, c->route->op->path);
        _cleanup_free_ char *text = xasprintf("is not a known parameter; there are: %s",
                                              strcmp(c->where, "query") == 0 ? known : "none");
        add_problem(c, "query", name, text);
        return 0;
    }
    json_t *before = json_object_get(c->in, name);
    if (before) {
        add_again(c, row, name, before, value, length);
        return 0;
    }
    json_t *given = row->type == FIELD_ARRAY ? json_pack("[o]", item_from_text(row, value, length))
                                             : field_from_text(row, value, length);
    json_object_set_new(c->in, name, given ? given : json_stringn(value, length));
    return 0;
}

static void take_path(struct rest_call *c)
{
    for (size_t i = 0; i < c->route->count; i++) {
        const char *name = c->route->names[i];
        if (!name)
            continue;
        if (json_object_get(c->in, name) && strcmp(c->where, "body") == 0)
            add_problem(c, "body", name, "is not a known member");
        const struct field *row = field_find(c->route->op->params, name);
        json_t *value = row ? field_from_text(row, c->parts[i], strlen(c->parts[i])) : NULL;
        json_object_set_new(c->in, name, value ? value : json_string(c->parts[i]));
    }
}

/* The rows do not know which of them stand in the path. */
static void name_places(const struct route *route, json_t *detail)
{
    size_t index;
    json_t *problem;
    json_array_foreach(detail, index, problem) {
        json_t *loc = json_object_get(problem, "loc");
        const char *name = json_string_value(json_array_get(loc, 1));
        if (name && is_path_parameter(route, name))
            json_array_set_new(loc, 0, json_string("path"));
    }
}

/* All problems together: those of the rows after those of the places. */
static int check(struct rest_call *c, json_t **ret, struct error *err)
{
    _cleanup_error_ struct error problem = ERROR_INIT;
    json_auto_t *checked = NULL;
    int rc = field_check(c->route->op->params, c->where, c->route->op->path, c->in, &checked, &problem);
    if (rc < 0)
        name_places(c->route, problem.detail);
    if (rc < 0 && !c->problems) {
        error_move(err, &problem);
        return -1;
    }
    if (!c->problems) {
        *ret = STEAL(checked);
        return 0;
    }
    const json_t *first = json_array_get(c->problems, 0);
    error_set(err, ERROR_VALIDATION, "%s: %s",
              json_string_value(json_array_get(json_object_get(first, "loc"), 1)),
              json_string_value(json_object_get(first, "msg")));
    if (problem.detail)
        json_array_extend(c->problems, problem.detail);
    err->detail = STEAL(c->problems);
    return -1;
}

bool rest_key_is_valid(const char *text)
{
    size_t length = 0;
    for (; text[length]; length++) {
        if (text[length] < 0x21 || text[length] > 0x7e || length >= 255)
            return false;
    }
    return length > 0;
}

/* ---- forms ---- */

static bool names_event_stream(const char *accept)
{
    static const char name[] = "text/event-stream";
    return accept && strcasestr(accept, name) != NULL;
}

static enum call_form form_of(const struct rest_call *c, json_t *in)
{
    const struct request *r = c->exchange->request;
    if ((c->route->op->flags & OP_STREAMS) == 0 || c->exchange->head)
        return CALL_REST;
    if (!json_is_true(json_object_get(in, "stream")) && !names_event_stream(request_header(r, "accept")))
        return CALL_REST;
    /* A reader that lost its connection goes on behind the last event that it saw. */
    const char *last = request_header(r, "last-event-id");
    const struct field *row = field_find(c->route->op->params, "cursor");
    json_t *cursor = last && row ? field_from_text(row, last, strlen(last)) : NULL;
    if (json_is_integer(cursor) && json_integer_value(cursor) >= 0)
        json_object_set(in, "cursor", cursor);
    json_decref(cursor);
    return CALL_SSE;
}

/* Headers that say the same as a parameter of that name: the parameter wins. A header of a form that is not
 * known here means nothing (RFC 9110, 14.2), a parameter of such a form is a mistake. */
static void take_headers(struct rest_call *c)
{
    static const char *const names[][2] = {
        { "range", "range" },
        { "if-match", "if_match" },
        { "if-none-match", "if_none_match" },
        { "if-range", "if_range" },
    };
    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        const char *value = request_header(c->exchange->request, names[i][0]);
        const struct field *row = field_find(c->route->op->params, names[i][1]);
        if (value && row && !json_object_get(c->in, names[i][1]) &&
            row->format->accepts(value, strlen(value)))
            json_object_set_new(c->in, names[i][1], json_string(value));
    }
}

/* A carrier that has it whole. */
static void give_whole_body(struct flight *f, const struct request *r)
{
    if (r->body.length > 0)
        dispatch_body(f, r->body.data, r->body.length, false);
    dispatch_body(f, "", 0, true);
}

static void start(struct rest_call *c)
{
    struct exchange *x = c->exchange;
    const char *key = request_header(x->request, "idempotency-key");
    if (key && (c->route->op->flags & OP_KEYED) && !rest_key_is_valid(key))
        add_problem(c, "header", "Idempotency-Key", "must have 1 to 255 visible ASCII characters");
    if (json_is_object(c->in))
        take_path(c);
    if (c->route->op->flags & OP_RAW)
        take_headers(c);
    _cleanup_error_ struct error err = ERROR_INIT;
    json_t *in = NULL;
    if (check(c, &in, &err) < 0) {
        reject_call(c, &err);
        return;
    }
    struct dispatch_request request = {
        .op = c->route->op,
        .principal = &c->principal,
        .form = form_of(c, in),
        .in = in,
        .key = key,
        .request_id = x->request_id,
        .started_us = x->started_us,
        .backlog = exchange_backlog(x),
        .peer = x->request->peer,
    };
    struct flight *f = dispatch_start(c->service, &request, &rest_sink, x);
    if (f) {
        x->user = f;
        x->on_gone = gone;
        x->on_drained = drained;
        x->on_body = body;
        if (c->route->op->flags & OP_RAW && !x->body_follows)
            give_whole_body(f, x->request);
        exchange_shed(x);
    }
    rest_call_free(c);
}

/* ---- bodies ---- */

static void take_json(void *user, struct exchange *x, json_t *value, const struct error *err)
{
    struct rest_call *c = user;
    c->exchange = x;
    c->in = value;
    if (!x)
        rest_call_free(c);
    else if (err)
        reject_call(c, err);
    else
        start(c);
}

static void take_body(struct rest_call *c)
{
    struct exchange *x = c->exchange;
    struct request *r = x->request;
    if (r->body.length == 0) {
        c->in = json_object();
        start(c);
        return;
    }
    if (!body_is_json(r)) {
        _cleanup_error_ struct error err = ERROR_INIT;
        error_set(&err, ERROR_MEDIA_TYPE, BODY_MUST_BE_JSON);
        reject_call(c, &err);
        return;
    }
    body_parse(c->service->loop, x, take_json, c);
}

/* Clients that send a body with everything send an empty object with what takes none. */
static bool body_is_nothing(const struct buffer *body)
{
    char text[3] = "";
    size_t count = 0;
    for (size_t i = 0; i < body->length; i++) {
        if (memchr(" \t\r\n", body->data[i], 4))
            continue;
        if (count == 2)
            return false;
        text[count++] = body->data[i];
    }
    return count == 0 || (text[0] == '{' && text[1] == '}');
}

static void take_parameters(struct rest_call *c)
{
    const char *method = c->route->op->method;
    bool raw = c->route->op->flags & OP_RAW;
    bool has_body = !raw && (strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0);
    struct request *r = c->exchange->request;
    _cleanup_error_ struct error err = ERROR_INIT;
    json_t *from_query = json_object();
    c->where = has_body ? "body" : "query";
    c->in = from_query;
    if (!has_body && !raw && !body_is_nothing(&r->body))
        add_problem(c, "body", "body", "is not taken by this operation: its parameters stand in the query");
    if (request_each_query(r->query, take_query, c, &err) < 0) {
        reject_call(c, &err);
        return;
    }
    if (!has_body) {
        start(c);
        return;
    }
    json_decref(STEAL(c->in));
    take_body(c);
}

/* ---- the way in ---- */

/* The first part of a path is "api". */
static const struct route *find_route(const struct routes *r, const char *method, char *const *parts,
                                      size_t count, char allow[static ROUTE_ALLOW_SIZE])
{
    allow[0] = '\0';
    return count > 1 ? routes_find(r, method, parts + 1, count - 1, allow) : NULL;
}

/* Asked of each request before its body comes: only of a PUT the routes are. */
bool rest_follows(const struct routes *r, const struct request *request)
{
    _cleanup_free_ char **parts = NULL;
    size_t count = 0;
    char allow[ROUTE_ALLOW_SIZE];
    if (strcmp(request->method, "PUT") != 0 || request_split_path(request->path, &parts, &count, NULL) < 0)
        return false;
    const struct route *route = find_route(r, request->method, parts, count, allow);
    return route && route->op->flags & OP_RAW;
}

static void no_route(struct exchange *x, const char *allow)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *header = xasprintf("Allow: %s%sOPTIONS\r\n", allow, allow[0] ? ", " : "");
    if (allow[0] == '\0') {
        error_set(&err, ERROR_NOT_FOUND, "there is no such path");
        reject(x, &err, NULL);
    } else if (strcmp(x->request->method, "OPTIONS") == 0) {
        x->carrier->reply(x, 204, "text/plain", header, "", 0);
    } else {
        error_set(&err, ERROR_METHOD, "the method is not allowed here; allowed: %s", allow);
        reject(x, &err, header);
    }
}

void rest_handle(struct service *s, struct exchange *x)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char **parts = NULL;
    size_t count = 0;
    char allow[ROUTE_ALLOW_SIZE];
    bool options = strcmp(x->request->method, "OPTIONS") == 0;
    struct principal principal = { 0 };
    if (!options && auth_check(s->config, s->state, x->request->authorization, &principal, &err) < 0) {
        audited_stranger(x, &err);
        reject(x, &err, auth_challenge(x->request->authorization, &err));
        return;
    }
    if (request_split_path(x->request->path, &parts, &count, &err) < 0) {
        principal_clear(&principal);
        reject(x, &err, NULL);
        return;
    }
    const struct route *route = find_route(s->routes, x->request->method, parts, count, allow);
    if (!route) {
        principal_clear(&principal);
        no_route(x, allow);
        return;
    }
    struct rest_call *c = xcalloc(1, sizeof(*c));
    c->service = s;
    c->exchange = x;
    c->route = route;
    c->principal = principal;
    memmove(parts, parts + 1, (count - 1) * sizeof(*parts)); /* the strings stay where they are */
    c->parts = STEAL(parts);
    take_parameters(c);
}
