/* The way of one call: scope -> workspace and its owner -> the action or the keeper's half -> the worker's
 * half -> answer, or parked (wait.c). It knows operations by their rows only, and neither HTTP nor JSON-RPC.
 */
#include "fcgi/dispatch.h"

#include "fcgi/actions.h"
#include "fcgi/audited.h"
#include "fcgi/auth.h"
#include "fcgi/away.h"
#include "fcgi/raw.h"
#include "fcgi/stream.h"
#include "fcgi/wait.h"
#include "lib/base/clock.h"
#include "lib/base/json_text.h"
#include "lib/base/log.h"

#include <stdio.h>

#define KEEPER_TIMEOUT_MS  20000
#define KEEPER_PATIENCE_MS 8000 /* with a live keeper, whose halves take milliseconds */
#define END_PATIENCE_MS    5000
#define PAGE_USUAL         90000
#define BACKLOG_MOST       (32u << 20)

/* ---- ends ---- */

static void flight_free(struct flight *f)
{
    wait_forget(f);
    stream_forget(f);
    raw_forget(f);
    away_forget(f);
    if (f->number)
        keeper_client_cancel(f->service->client, f->number);
    if (f->creating)
        actions_take_back(f);
    if (f->over)
        *f->over = true;
    principal_clear(&f->principal);
    free(f->key);
    free(f->audited);
    json_decref(f->in);
    json_decref(f->kept);
    json_decref(f->workspace);
    json_decref(f->data);
    buffer_free(&f->blocks);
    free(f->memo);
    free(f);
}

static void log_operation(const struct flight *f, int status, const struct error *err)
{
    int64_t us = clock_boottime_us() - f->started_us;
    log_info("request=%s principal=%s op=%s workspace=%s exec=%s status=%d ms=%lld.%03lld", f->request_id,
             f->principal.name, f->op->id, f->workspace_id[0] ? f->workspace_id : "-",
             f->exec_id[0] ? f->exec_id : "-", status, (long long)us / 1000, (long long)us % 1000);
    audited_call(f, status, err);
}

/* Who named none is not told of one. */
void dispatch_finish(struct flight *f, const char *text, size_t length, const struct error *err)
{
    _cleanup_error_ struct error gone = ERROR_INIT;
    if (err && actions_lost_default(f, err)) {
        error_set(&gone, ERROR_UNAVAILABLE, "your default workspace was removed during the call: try again");
        err = &gone;
    }
    log_operation(f, err ? error_status(err->code) : 200, err);
    f->sink->answer(f->user, f, text, length, err);
    flight_free(f);
}

void dispatch_abandon(struct flight *f)
{
    log_operation(f, 499, NULL);
    flight_free(f);
}

void dispatch_drained(struct flight *f)
{
    if (!f->blocked)
        return;
    f->blocked = false;
    wait_drained(f);
    stream_drained(f);
    raw_drained(f);
}

void dispatch_body(struct flight *f, const char *data, size_t length, bool last)
{
    raw_take(f, data, length, last);
}

void dispatch_fail(struct flight *f, const struct error *err)
{
    dispatch_finish(f, NULL, 0, err);
}

/* ---- the worker's half ---- */

int dispatch_load_workspace(struct flight *f, json_t **ret, struct error *err)
{
    const struct principal *p = &f->principal;
    _cleanup_error_ struct error problem = ERROR_INIT;
    json_auto_t *record = NULL;
    bool foreign = p->workspace_id && strcmp(p->workspace_id, f->workspace_id) != 0;
    if (!foreign && state_see_workspace(f->service->state, f->workspace_id, &record, &problem) < 0 &&
        problem.code != ERROR_NOT_FOUND) {
        error_move(err, &problem);
        return -1;
    }
    const char *owner = json_string_value(json_object_get(record, "owner"));
    if (!owner || strcmp(owner, p->name) != 0)
        return error_set(err, ERROR_NOT_FOUND, "there is no workspace %s", f->workspace_id);
    *ret = STEAL(record);
    return 0;
}

int dispatch_fill(struct flight *f, struct call *call, struct error *err)
{
    struct service *s = f->service;
    *call = (struct call){ .op = f->op,
                           .config = s->config,
                           .state = s->state,
                           .events = s->events,
                           .principal = &f->principal,
                           .request_id = f->request_id,
                           .idempotency_key = f->key,
                           .form = f->form,
                           .pieces = f->form == CALL_REST && f->sink->piece != NULL,
                           .going_on = f->going_on,
                           .may_work = f->may_work };
    if ((f->op->flags & OP_ON_WORKSPACE) && !f->workspace &&
        dispatch_load_workspace(f, &f->workspace, err) < 0)
        return -1;
    call->in = STEAL(f->in);
    call->kept = STEAL(f->kept);
    call->workspace = STEAL(f->workspace);
    call->memo = STEAL(f->memo);
    call->work = STEAL(f->work);
    return 0;
}

/* Does the answer keep what the operation's row promises? */
static void check_result(const struct op *op, const char *text, size_t length)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *value = json_text_read(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    size_t index;
    const json_t *item;
    if ((op->flags & OP_LIST) == 0) {
        if (field_check_result(op->result, value, &err) < 0)
            log_error("result of %s is not what it declares: %s", op->id, err.message);
        return;
    }
    json_array_foreach(value, index, item) {
        if (field_check_result(op->result, item, &err) < 0) {
            log_error("result of %s is not what it declares: item %zu: %s", op->id, index, err.message);
            return;
        }
    }
}

int dispatch_run(struct service *s, struct call *call, struct error *err)
{
    int rc = OP_DONE;
    if (call->op->run)
        rc = call->op->run(call, err);
    else
        call->result = json_incref(call->kept);
    if (rc != OP_DONE)
        return rc;
    if (call->result) {
        call->body.length = 0;
        json_text_append(&call->body, call->result);
    }
    if (s->checks_results && call->form != CALL_SSE && !call->going_on)
        check_result(call->op, call->body.data, call->body.length);
    return OP_DONE;
}

void dispatch_take_blocks(struct flight *f, const struct call *call)
{
    f->blocks.length = 0;
    buffer_append(&f->blocks, call->blocks.data, call->blocks.length);
    f->failed = call->failed;
}

void dispatch_go_on(struct flight *f)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct call call;
    if (dispatch_fill(f, &call, &err) < 0) {
        dispatch_fail(f, &err);
        return;
    }
    call.last = f->service->draining;
    int rc = dispatch_run(f->service, &call, &err);
    if (rc == OP_MORE && call.last)
        rc = error_set(&err, ERROR_INTERNAL, "%s did not end when it had to", f->op->id);
    if (rc == OP_PARKED) {
        stream_forget(f);
        rc = wait_park(f, &call, &err);
    }
    if (rc == OP_MORE)
        stream_go_on(f, &call);
    else if (rc == OP_AWAY)
        away_begin(f, &call);
    else if (rc == OP_DONE) {
        dispatch_take_blocks(f, &call);
        dispatch_finish(f, call.body.data, call.body.length, NULL);
    } else if (rc == OP_FAILED)
        dispatch_fail(f, &err);
    call_clear(&call);
}

/* ---- the keeper's half ---- */

void dispatch_note(struct flight *f, const json_t *object)
{
    const char *id = json_string_value(json_object_get(object, "exec_id"));
    if (id)
        snprintf(f->exec_id, sizeof(f->exec_id), "%s", id);
    id = json_string_value(json_object_get(object, "workspace_id"));
    if (id)
        snprintf(f->workspace_id, sizeof(f->workspace_id), "%s", id);
}

/* Nobody else has value, which may be changed. */
static void take_value(struct flight *f, json_t *value)
{
    json_decref(STEAL(f->data));
    json_decref(f->kept);
    f->kept = value;
    dispatch_note(f, f->kept);
    if (f->op->action != OP_ACTION_TERMINATE) /* there the old record is all that is left */
        json_decref(STEAL(f->workspace));
    dispatch_go_on(f);
}

void dispatch_keep(struct flight *f, const json_t *value)
{
    take_value(f, value ? json_deep_copy(value) : json_object());
}

void dispatch_kept(void *user, const json_t *ret, const struct error *err)
{
    struct flight *f = user;
    bool none = err && (err->code == ERROR_CONFLICT || err->code == ERROR_UNAVAILABLE);
    f->number = 0;
    if (none && (f->op->flags & OP_STOPPED_TOO))
        take_value(f, json_object());
    else if (err && !actions_look_again(f, err))
        dispatch_fail(f, err);
    else if (!err)
        take_value(f, ret ? json_incref((json_t *)ret) : json_object());
}

/* The text that does not go with the parameters but behind them. */
static json_t *take_data(struct flight *f)
{
    json_t *data = f->op->data ? json_incref(json_object_get(f->in, f->op->data)) : NULL;
    if (data)
        json_object_set_new(f->in, f->op->data, json_string(""));
    return data;
}

static int64_t patience(const struct op *op)
{
    if (op->keep_ms)
        return op->keep_ms;
    return op->action == OP_ACTION_NONE ? KEEPER_PATIENCE_MS : END_PATIENCE_MS;
}

void dispatch_ask_keeper(struct flight *f, bool start, keeper_answer *answer)
{
    char digest[ID_HASH_SIZE];
    if (f->key)
        op_digest(f->op, f->in, digest);
    json_auto_t *data = take_data(f);
    struct keeper_request request = {
        .workspace_id = f->workspace_id,
        .operation = f->op->id,
        .principal = f->principal.name,
        .request_id = f->request_id,
        .idempotency_key = f->key,
        .digest = f->key ? digest : NULL,
        .in = f->in,
        .data = data,
        .twice = f->form == CALL_MCP,
        .transfer = f->op->flags & OP_RAW ? &raw_transfer : NULL,
        .start = start,
        .timeout_ms = KEEPER_TIMEOUT_MS + f->op->keep_ms,
        .patience_ms = patience(f->op),
    };
    if (f->means_default && data) {
        json_decref(f->data);
        f->data = json_incref(data);
    }
    f->number = keeper_client_request(f->service->client, &request, answer, f);
}

/* ---- the beginning ---- */

static void start_raw(struct flight *f)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (f->sink->head) {
        dispatch_ask_keeper(f, true, raw_answer);
        raw_begin(f);
        return;
    }
    error_set(&err, ERROR_UNSUPPORTED, "%s", op_raw_way);
    dispatch_fail(f, &err);
}

static void (*const actions[])(struct flight *f) = { [OP_ACTION_NONE] = NULL,
                                                     [OP_ACTION_CREATE] = actions_create,
                                                     [OP_ACTION_TERMINATE] = actions_terminate,
                                                     [OP_ACTION_STOP] = actions_stop };
_Static_assert(N_ELEMENTS(actions) == OP_ACTIONS, "each action has its call");

void dispatch_advance(struct flight *f)
{
    if ((f->op->flags & OP_DEFAULT_WORKSPACE) && !f->workspace_id[0]) {
        actions_create_default(f);
        return;
    }
    if (actions[f->op->action])
        actions[f->op->action](f);
    else if (f->op->flags & OP_RAW)
        start_raw(f);
    else if (f->op->keep)
        dispatch_ask_keeper(f, (f->op->flags & OP_NEEDS_SANDBOX) != 0, dispatch_kept);
    else
        dispatch_go_on(f);
}

static int check_scope(const struct op *op, const struct principal *p, struct error *err)
{
    bool allowed = (op->flags & OP_ADMIN) ? p->admin : (op->flags & OP_READ_ONLY) ? p->read : p->write;
    const char *scope = (op->flags & OP_ADMIN) ? "admin" : (op->flags & OP_READ_ONLY) ? "read" : "write";
    if (allowed)
        return 0;
    return error_set(err, ERROR_FORBIDDEN, "this needs a token with the scope %s", scope);
}

static int prepare(struct flight *f, struct error *err)
{
    if (check_scope(f->op, &f->principal, err) < 0)
        return -1;
    if (f->op->check && f->op->check(f->service->config, f->in, err) < 0)
        return -1;
    if ((f->op->flags & OP_ON_WORKSPACE) == 0)
        return 0;
    if (f->workspace_id[0])
        return dispatch_load_workspace(f, &f->workspace, err);
    return actions_find_default(f, err);
}

/* While much output lies here for slow clients, who asks for a large page gets a usual one: max_bytes is a
 * bound, and the page says that there is more. */
static void bound_page(struct flight *f, size_t backlog)
{
    if (backlog <= BACKLOG_MOST || !(f->op->flags & OP_READ_ONLY))
        return;
    if (json_integer_value(json_object_get(f->in, "max_bytes")) > PAGE_USUAL)
        json_object_set_new(f->in, "max_bytes", json_integer(PAGE_USUAL));
}

static void principal_copy(struct principal *to, const struct principal *from)
{
    *to = *from;
    to->name = xstrdup(from->name);
    to->workspace_id = from->workspace_id ? xstrdup(from->workspace_id) : NULL;
}

struct flight *dispatch_start(struct service *s, struct dispatch_request *request,
                              const struct dispatch_sink *sink, void *user)
{
    bool over = false;
    struct flight *f = xcalloc(1, sizeof(*f));
    f->service = s;
    f->op = request->op;
    f->sink = sink;
    f->user = user;
    f->form = request->form;
    f->over = &over;
    f->in = STEAL(request->in);
    f->started_us = request->started_us;
    f->audited = audited_begin(f->op, f->in, request->peer);
    principal_copy(&f->principal, request->principal);
    snprintf(f->request_id, sizeof(f->request_id), "%s", request->request_id);
    if (request->key && (f->op->flags & OP_KEYED))
        f->key = xstrdup(request->key);
    dispatch_note(f, f->in);
    bound_page(f, request->backlog);
    _cleanup_error_ struct error err = ERROR_INIT;
    if (prepare(f, &err) < 0)
        dispatch_fail(f, &err);
    else
        dispatch_advance(f);
    if (over)
        return NULL;
    f->over = NULL;
    return f;
}
