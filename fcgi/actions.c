/* Owns what calls that make or end a workspace ask of the warden and the keeper, and what comes of it. It
 * knows nothing of how answers reach a client, and of parking neither.
 */
#include "fcgi/actions.h"

#include "fcgi/default_workspace.h"

#include <stdio.h>

#define ATTEMPTS 3

/* ---- creating ---- */

static void keep_record(void *user, const json_t *ret, const struct error *err)
{
    struct flight *f = user;
    f->number = 0;
    const json_t *record = json_object_get(ret, "record");
    if (err)
        dispatch_fail(f, err);
    else
        dispatch_keep(f, record ? record : ret);
}

/* What failed to come up was forgotten, and its key with it: the same request will make another. */
static void fail_creation(struct flight *f, const struct error *err)
{
    _cleanup_error_ struct error gone = ERROR_INIT;
    error_set(&gone, ERROR_UNAVAILABLE, "the workspace could not be made: try again");
    dispatch_fail(f, err->code == ERROR_NOT_FOUND ? &gone : err);
}

static void create_started(void *user, const json_t *ret, const struct error *err)
{
    struct flight *f = user;
    f->number = 0;
    if (err)
        fail_creation(f, err);
    else
        keep_record(f, ret, NULL);
}

/* The key was used before: the same request gets that workspace, another one is refused. */
static void create_again(struct flight *f, const json_t *existing)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    const char *id = json_string_value(json_object_get(existing, "workspace_id"));
    const char *before = json_string_value(json_object_get(existing, "digest"));
    char digest[ID_HASH_SIZE];
    op_digest(f->op, f->in, digest);
    snprintf(f->workspace_id, sizeof(f->workspace_id), "%s", id ? id : "");
    json_auto_t *record = NULL;
    if (!before || strcmp(before, digest) != 0)
        error_set(&err, ERROR_CONFLICT, "this Idempotency-Key was used before with other parameters");
    else if (dispatch_load_workspace(f, &record, &err) == 0) {
        const char *state = json_string_value(json_object_get(record, "state"));
        if (state && strcmp(state, "creating") == 0)
            f->number = keeper_client_start(f->service->client, f->workspace_id, create_started, f);
        else
            dispatch_keep(f, record);
        return;
    }
    fail_creation(f, &err);
}

void actions_take_back(struct flight *f)
{
    f->creating = false;
    if (!f->key)
        keeper_client_take_back(f->service->client, f->workspace_id);
}

static void created(void *user, const json_t *ret, const struct error *err)
{
    struct flight *f = user;
    const json_t *existing = json_object_get(ret, "existing");
    f->number = 0;
    f->creating = false;
    if (err && (err->code == ERROR_TIMEOUT || err->code == ERROR_UNAVAILABLE))
        actions_take_back(f);
    if (!err && existing)
        create_again(f, existing);
    else
        keep_record(f, ret, err);
}

void actions_create(struct flight *f)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    if (f->principal.workspace_id) {
        error_set(&err, ERROR_FORBIDDEN, "this token is bound to one workspace");
        dispatch_fail(f, &err);
        return;
    }
    char digest[ID_HASH_SIZE];
    if (f->key)
        op_digest(f->op, f->in, digest);
    json_auto_t *record = op_workspace_record(f->service->config, &f->principal, f->in);
    dispatch_note(f, record);
    f->creating = true;
    f->number = keeper_client_create(f->service->client, record, f->principal.name, f->key,
                                     f->key ? digest : NULL, created, f);
}

/* ---- the principal's own workspace ---- */

/* Looking makes nothing: who may only look works in what is there. */
static int check_creation(const struct principal *p, struct error *err)
{
    if (p->write)
        return 0;
    return error_set(err, ERROR_FORBIDDEN,
                     "you have no workspace named " DEFAULT_WORKSPACE
                     ": creating one needs a token with the scope write; workspace_id names another one");
}

static int take_default(struct flight *f, const char *id, struct error *err)
{
    snprintf(f->workspace_id, ID_SIZE, "%s", id);
    json_object_set_new(f->in, "workspace_id", json_string(id));
    return dispatch_load_workspace(f, &f->workspace, err);
}

static void forget_default(struct flight *f)
{
    f->workspace_id[0] = '\0';
    json_object_del(f->in, "workspace_id");
    json_decref(STEAL(f->workspace));
}

bool actions_lost_default(struct flight *f, const struct error *err)
{
    _cleanup_error_ struct error problem = ERROR_INIT;
    json_auto_t *record = NULL;
    return f->means_default && err->code == ERROR_NOT_FOUND &&
           (!f->workspace_id[0] ||
            (dispatch_load_workspace(f, &record, &problem) < 0 && problem.code == ERROR_NOT_FOUND));
}

int actions_find_default(struct flight *f, struct error *err)
{
    char id[ID_SIZE];
    _cleanup_error_ struct error problem = ERROR_INIT;
    f->means_default = !f->principal.workspace_id;
    int rc = default_workspace_find(f->service->state, &f->principal, id, err);
    if (rc != 0)
        return rc < 0 ? -1 : check_creation(&f->principal, err);
    if (take_default(f, id, &problem) == 0)
        return 0;
    if (actions_lost_default(f, &problem)) { /* removed between the two looks */
        forget_default(f);
        return check_creation(&f->principal, err);
    }
    error_move(err, &problem);
    return -1;
}

bool actions_look_again(struct flight *f, const struct error *err)
{
    _cleanup_error_ struct error problem = ERROR_INIT;
    if (!actions_lost_default(f, err) || ++f->attempts >= ATTEMPTS)
        return false;
    forget_default(f);
    if (f->data)
        json_object_set_new(f->in, f->op->data, STEAL(f->data));
    if (actions_find_default(f, &problem) < 0)
        dispatch_fail(f, &problem);
    else
        dispatch_advance(f);
    return true;
}

/* There is one, whoever made it; where it is not up yet, its keeper's start is waited for. */
static void default_created(void *user, const json_t *ret, const struct error *err)
{
    struct flight *f = user;
    _cleanup_error_ struct error problem = ERROR_INIT;
    const json_t *existing = json_object_get(ret, "existing");
    const json_t *made = existing ? existing : json_object_get(ret, "record");
    const char *id = json_string_value(json_object_get(made, "workspace_id"));
    f->number = 0;
    if (!err && take_default(f, id ? id : "", &problem) == 0) {
        dispatch_advance(f);
        return;
    }
    if (!actions_look_again(f, err ? err : &problem))
        dispatch_fail(f, err ? err : &problem);
}

void actions_create_default(struct flight *f)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *record = default_workspace_record(f->service->config, &f->principal, &err);
    if (record)
        f->number = keeper_client_create_by_name(f->service->client, record, default_created, f);
    else
        dispatch_fail(f, &err);
}

/* ---- ending ---- */

static void terminated(void *user, const json_t *ret, const struct error *err);

static void removed(void *user, const json_t *ret, const struct error *err)
{
    struct flight *f = user;
    f->number = 0;
    if (err && err->code == ERROR_CONFLICT && ++f->attempts < ATTEMPTS)
        dispatch_ask_keeper(f, false, terminated); /* a keeper came up meanwhile */
    else if (err)
        dispatch_fail(f, err);
    else
        dispatch_keep(f, json_object_size(ret) > 0 ? ret : f->workspace);
}

/* A conflict or a death: there is no keeper (any more), the warden removes what is left; or one that does not
 * answer, which it ends. */
static void terminated(void *user, const json_t *ret, const struct error *err)
{
    struct flight *f = user;
    f->number = 0;
    bool stuck = err && err->code == ERROR_TIMEOUT;
    if (stuck || (err && (err->code == ERROR_CONFLICT || err->code == ERROR_UNAVAILABLE)))
        f->number = keeper_client_remove(f->service->client, f->workspace_id, stuck, removed, f);
    else
        dispatch_kept(f, ret, err);
}

static void stopped(void *user, const json_t *ret, const struct error *err)
{
    struct flight *f = user;
    f->number = 0;
    if (err && (err->code == ERROR_CONFLICT || err->code == ERROR_UNAVAILABLE)) {
        _cleanup_error_ struct error problem = ERROR_INIT;
        json_auto_t *record = NULL;
        if (dispatch_load_workspace(f, &record, &problem) < 0)
            dispatch_fail(f, &problem);
        else
            dispatch_keep(f, record);
        return;
    }
    dispatch_kept(f, ret, err);
}

void actions_terminate(struct flight *f)
{
    dispatch_ask_keeper(f, false, terminated);
}

void actions_stop(struct flight *f)
{
    dispatch_ask_keeper(f, false, stopped);
}
