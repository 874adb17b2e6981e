/* What is asked of an exec: start, input, signals, size. Its live half is here, its record and events are the
 * store's; its processes are the agent's. Ends come in by the journal only. */
#include "lib/keeper/internal.h"
#include "lib/store/told.h"

#include <errno.h>

static const int ending_signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGKILL };

struct exec *live_add(struct keeper *k, const struct exec_head *head)
{
    struct exec *e = xcalloc(1, sizeof(*e));
    e->now.head = *head;
    e->now.tails[0].deadline_ms = e->now.tails[1].deadline_ms = INT64_MAX;
    e->timeout_ms = e->kill_ms = INT64_MAX;
    e->allowance = SIZE_MAX;
    e->started_ms = clock_boottime_ms();
    e->next = k->execs;
    k->execs = e;
    k->live++;
    return e;
}

void live_free(struct exec *e)
{
    buffer_free(&e->input);
    free(e);
}

struct exec *live_find(struct keeper *k, uint32_t stream)
{
    if (k->last_found != NULL && k->last_found->now.head.stream == stream)
        return k->last_found;
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        if (e->now.head.stream == stream)
            return k->last_found = e;
    return NULL;
}

/* Lets go of what the agent has closed, once no entry of the journal names it; a tree whose grace runs is
 * still to be killed. */
void live_reap(struct keeper *k)
{
    if (k->journal.count > 0)
        return;
    for (struct exec **link = &k->execs; *link != NULL;) {
        struct exec *e = *link;
        if (!e->now.closed || e->kill_ms != INT64_MAX) {
            link = &e->next;
            continue;
        }
        *link = e->next;
        k->live--;
        k->last_found = NULL;
        live_free(e);
    }
}

static struct exec *find(struct keeper *k, const char *id)
{
    for (struct exec *e = k->execs; e != NULL; e = e->next)
        if (strcmp(e->now.head.id, id) == 0)
            return e;
    return NULL;
}

static int conflict(const char *what, struct error *err)
{
    return error_set(err, ERROR_CONFLICT, "%s", what);
}

/* A live exec that has not ended; the others' error says why not. */
static struct exec *find_running(struct keeper *k, const char *id, struct error *err)
{
    struct exec *e = find(k, id);
    struct exec_head head;
    if (e != NULL && !e->now.over)
        return e;
    if (e != NULL || events_get_exec(events_writer_reader(k->events), id, &head, err) == 0)
        conflict("the command has ended", err);
    return NULL;
}

/* ---- start ---- */

/* What the operator passes on, overlaid by the workspace's env and the request's; null takes a name away. */
static json_t *merged_env(const struct keeper *k, const json_t *env)
{
    json_t *merged = config_passed_variables(k->config);
    json_t *own = json_object_get(json_object_get(k->record, "spec"), "env");
    if (json_is_object(own))
        json_object_update(merged, own);
    if (json_is_object(env))
        json_object_update(merged, (json_t *)env);
    return merged;
}

static const char *default_workdir(const struct keeper *k)
{
    return json_string_value(json_object_get(k->record, "repo_path"));
}

static const char *stdin_name(const struct exec_request *r)
{
    return r->stdin_is_null ? "null" : "pipe";
}

static json_t *exec_info(const struct exec_request *r, const char *workdir)
{
    json_t *info = json_pack("{s:s, s:s, s:b, s:i, s:i, s:s, s:b}", "command", r->command, "workdir",
                             workdir != NULL ? workdir : "/workspace", "pty", r->pty, "rows", r->rows, "cols",
                             r->cols, "stdin", stdin_name(r), "merge_stderr", r->merge_stderr);
    if (info != NULL)
        json_object_set_new(info, "timeout_seconds",
                            r->timeout_s > 0 ? json_integer(r->timeout_s) : json_null());
    return info;
}

static json_t *agent_request(struct keeper *k, const struct exec_request *r, const char *workdir)
{
    json_t *request = json_pack("{s:s, s:s, s:o, s:b, s:i, s:i, s:s, s:b}", "op", "exec", "command",
                                r->command, "env", merged_env(k, r->env), "pty", r->pty, "rows", r->rows,
                                "cols", r->cols, "stdin", stdin_name(r), "merge_stderr", r->merge_stderr);
    if (request != NULL && r->rtk)
        json_object_set_new(request, "rtk", json_true());
    if (request != NULL)
        json_object_set_new(request, "workdir", workdir != NULL ? json_string(workdir) : json_null());
    return request;
}

/* One transaction: the record and its first event. 1 = the key was used before. */
static int record_exec(struct keeper *k, struct keeper_call *call, const json_t *info, struct exec_head *head,
                       struct error *err)
{
    static const char members[] = "\"state\":\"starting\"";
    const char *key = keeper_call_idempotency_key(call), *principal = keeper_call_principal(call);
    _cleanup_free_ char *full_key =
        key != NULL ? xasprintf("%s\n%s", principal != NULL ? principal : "", key) : NULL;
    struct event event = {
        .type = EVENT_STATUS, .wall_us = head->created_us, .data = members, .length = sizeof(members) - 1
    };
    if (events_begin(k->events, err) < 0)
        return -1;
    int rc = events_add_exec(k->events, head, info, full_key, keeper_call_digest(call), err);
    if (rc == 0 &&
        (events_append(k->events, head, &event, err) < 0 || events_put_exec(k->events, head, err) < 0))
        rc = -1;
    if (rc != 0) {
        events_abort(k->events);
        return rc;
    }
    return events_commit(k->events, err);
}

static int check_start(const struct keeper *k, struct error *err)
{
    if (k->stop.wanted || k->agent_gone)
        return error_set(err, ERROR_UNAVAILABLE, "the workspace is stopping");
    if (k->live >= KEEPER_EXECS_MAX) {
        return error_set(err, ERROR_TOO_MANY, "%d commands run in this workspace already", KEEPER_EXECS_MAX);
    }
    return k->journal.full ? error_set(err, ERROR_FULL, "the disk is full: the workspace's log takes no more")
                           : 0;
}

static void exec_begin(struct keeper *k, const struct exec_request *request, const char *workdir,
                       const struct exec_head *head)
{
    struct exec *e = live_add(k, head);
    json_auto_t *message = agent_request(k, request, workdir);
    e->timeout_s = request->timeout_s;
    if (e->timeout_s > 0)
        e->timeout_ms = e->started_ms + e->timeout_s * 1000;
    e->oom_base = life_oom_kills(k);
    k->running++;
    if (k->enforce_ms == INT64_MAX && !k->enforce_over)
        k->enforce_ms = 0;
    if (!box_start_exec(k, e, message)) {
        static const char why[] = "E2BIG: command and environment are larger than a start may be";
        journal_add_text(k, e, ENTRY_FAILED, why, sizeof(why) - 1);
        journal_add(k, e, ENTRY_CLOSE, 0, 0);
    }
    flusher_mark(k->flusher);
}

int keeper_exec_start(struct keeper_call *call, const struct exec_request *request, struct exec_head *ret,
                      struct error *err)
{
    struct keeper *k = keeper_of(call);
    const char *workdir = request->workdir != NULL ? request->workdir : default_workdir(k);
    if (check_start(k, err) < 0 || events_keep_room(k->events, life_ends(k) + 1, err) < 0)
        return -1;
    json_auto_t *info = exec_info(request, workdir);
    if (info == NULL)
        return error_set(err, ERROR_INVALID, "command and workdir must be UTF-8");
    struct exec_head head = { .state = EXEC_STARTING,
                              .pty = request->pty,
                              .stdin_closed = request->stdin_is_null };
    id_make(ID_EXEC, head.id);
    head.created_us = head.updated_us = clock_wall_us();
    int rc = record_exec(k, call, info, &head, err);
    if (rc < 0)
        return -1;
    *ret = head;
    if (rc > 0)
        return 0;
    told_exec_started(k->workspace_id, &head, keeper_call_principal(call));
    exec_begin(k, request, workdir, &head);
    return 0;
}

/* ---- input ---- */

int keeper_exec_input(struct keeper *k, const char *exec_id, const void *data, size_t length, bool eof,
                      struct error *err)
{
    struct exec *e = find_running(k, exec_id, err);
    if (e == NULL)
        return -1;
    if (e->now.head.stdin_closed)
        return conflict("the command's input is closed", err);
    if (length > KEEPER_INPUT_MAX || e->input.length > KEEPER_INPUT_MAX - length) {
        error_set(err, ERROR_TOO_MANY, "%zu bytes of input wait already: the command does not read",
                  e->input.length);
        if (err != NULL)
            err->retry_after = 1;
        return -1;
    }
    buffer_append(&e->input, data, length);
    e->input_eof = eof;
    box_pump_input(k, e);
    if (eof) {
        e->now.head.stdin_closed = true;
        journal_add(k, e, ENTRY_TOUCH, 0, 0);
        journal_write(k);
    }
    return 0;
}

/* ---- signals ---- */

static bool is_ending(int signal_number)
{
    for (size_t i = 0; i < N_ELEMENTS(ending_signals); i++)
        if (ending_signals[i] == signal_number)
            return true;
    return false;
}

void live_end_tree(struct keeper *k, struct exec *e, int signal_number)
{
    box_signal(k, e->now.head.stream, signal_number, true);
    if (signal_number != SIGKILL)
        e->kill_ms = clock_boottime_ms() + KEEPER_GRACE_MS;
}

/* An exec that the keeper has let go: what it left behind is reached by its number alone. */
static int signal_remains(struct keeper *k, const char *id, int signal_number, bool tree, struct error *err)
{
    struct exec_head head;
    if (events_get_exec(events_writer_reader(k->events), id, &head, err) < 0)
        return -1;
    if (!tree)
        return conflict("the command has ended", err);
    if (signal_number == SIGKILL || !is_ending(signal_number)) {
        box_signal(k, head.stream, signal_number, true);
        return 0;
    }
    struct exec *e = live_add(k, &head);
    e->now.over = e->now.closed = e->settled = true;
    live_end_tree(k, e, signal_number);
    return 0;
}

int keeper_exec_signal(struct keeper *k, const char *exec_id, int signal_number, bool tree, struct error *err)
{
    struct exec *e = find(k, exec_id);
    if (signal_number <= 0 || signal_number >= 64)
        return error_set(err, ERROR_INVALID, "no such signal");
    if (e == NULL)
        return signal_remains(k, exec_id, signal_number, tree, err);
    if (e->now.over && !tree)
        return conflict("the command has ended", err);
    e->asked |= (uint64_t)1 << signal_number;
    if (tree && is_ending(signal_number))
        live_end_tree(k, e, signal_number);
    else
        box_signal(k, e->now.head.stream, signal_number, tree);
    if (is_ending(signal_number) && !e->now.over) {
        e->now.head.cancel_requested = true;
        journal_add(k, e, ENTRY_TOUCH, 0, 0);
        journal_write(k);
    }
    return 0;
}

int keeper_exec_resize(struct keeper *k, const char *exec_id, int rows, int cols, struct error *err)
{
    struct exec *e = find_running(k, exec_id, err);
    if (e == NULL)
        return -1;
    if (!e->now.head.pty)
        return conflict("the command has no terminal", err);
    if (rows < 1 || rows > 65535 || cols < 1 || cols > 65535)
        return error_set(err, ERROR_INVALID, "rows and cols must lie between 1 and 65535");
    unsigned char size[4] = { (unsigned char)(rows >> 8), (unsigned char)rows, (unsigned char)(cols >> 8),
                              (unsigned char)cols };
    channel_send(k->agent, FRAME_RESIZE, 0, e->now.head.stream, size, sizeof(size));
    return 0;
}
