/* Owns the records of workspaces; owners, user ids and idempotency keys are booked in the same transactions.
 * Knows nothing of what a workspace does. */
#include "lib/store/state.h"

#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/store/state_keys.h"
#include "lib/store/state_owners.h"
#include "lib/store/state_uids.h"
#include "lib/store/told.h"
#include "lib/store/transaction.h"

#include <inttypes.h>

#define VISITED_AT_ONCE 200

static const char *member(const json_t *record, const char *name)
{
    const char *text = json_string_value(json_object_get(record, name));
    return text ? text : "";
}

static int not_found(const char *id, struct error *err)
{
    return error_set(err, ERROR_NOT_FOUND, "there is no workspace %.64s", id);
}

/* ---- one record ---- */
struct record_arguments {
    const char *id;
    const json_t *record, *changes;
    json_t *ret;
    json_t *old; /* what was there; owned */
    bool forget_key;
    int (*find)(struct transaction *t, enum state_table table, const char *key, json_t **ret,
                struct error *err);
};

static void take_result(json_t **to, json_t *from)
{
    json_decref(*to);
    *to = from;
}

static int read_body(struct transaction *t, void *user, struct error *err)
{
    struct record_arguments *a = user;
    int found = a->find(t, TABLE_WORKSPACE, a->id, &a->ret, err);
    return found == 0 ? not_found(a->id, err) : found < 0 ? -1 : 0;
}

static int read_record(struct state *s, struct record_arguments *a, json_t **ret, struct error *err)
{
    if (!id_is_valid(ID_WORKSPACE, a->id))
        return not_found(a->id ? a->id : "", err);
    if (transaction_read(s, read_body, a, err) < 0)
        return -1;
    *ret = a->ret;
    return 0;
}

int state_get_workspace(struct state *s, const char *id, json_t **ret, struct error *err)
{
    return read_record(s, &(struct record_arguments){ .id = id, .find = transaction_get }, ret, err);
}

int state_see_workspace(struct state *s, const char *id, json_t **ret, struct error *err)
{
    return read_record(s, &(struct record_arguments){ .id = id, .find = transaction_see }, ret, err);
}

/* The record in place of the one that is there; the index follows its owner. */
static int replace(struct transaction *t, const char *id, const json_t *old, const json_t *record,
                   struct error *err)
{
    if (strcmp(member(old, "owner"), member(record, "owner")) != 0 &&
        (state_owner_delete(t, member(old, "owner"), id, err) < 0 ||
         state_owner_put(t, member(record, "owner"), id, err) < 0))
        return -1;
    return transaction_put(t, TABLE_WORKSPACE, id, record, err);
}

static int update_body(struct transaction *t, void *user, struct error *err)
{
    struct record_arguments *a = user;
    json_auto_t *old = NULL;
    int found = transaction_get(t, TABLE_WORKSPACE, a->id, &old, err);
    if (found <= 0)
        return found < 0 ? -1 : not_found(a->id, err);
    take_result(&a->old, json_incref(old));
    return replace(t, a->id, old, a->record, err);
}

int state_update_workspace(struct state *s, const json_t *record, struct error *err)
{
    struct record_arguments a = { .id = member(record, "workspace_id"), .record = record };
    if (!id_is_valid(ID_WORKSPACE, a.id))
        return not_found(a.id, err);
    int result = transaction_write(s, update_body, &a, err);
    if (result == 0)
        told_workspace(a.old, record);
    json_decref(a.old);
    return result;
}

static int patch_body(struct transaction *t, void *user, struct error *err)
{
    struct record_arguments *a = user;
    json_auto_t *old = NULL;
    int found = transaction_get(t, TABLE_WORKSPACE, a->id, &old, err);
    if (found <= 0)
        return found < 0 ? -1 : not_found(a->id, err);
    json_auto_t *record = json_copy(old);
    if (json_object_update(record, (json_t *)a->changes) < 0)
        return error_set(err, ERROR_INTERNAL, "the changes of a workspace are not an object");
    if (replace(t, a->id, old, record, err) < 0)
        return -1;
    take_result(&a->ret, json_incref(record));
    take_result(&a->old, json_incref(old));
    return 0;
}

/* An own copy: the record that was read shares members with the changes. */
int state_patch_workspace(struct state *s, const char *id, const json_t *changes, json_t **ret,
                          struct error *err)
{
    struct record_arguments a = { .id = id, .changes = changes };
    if (!id_is_valid(ID_WORKSPACE, id))
        return not_found(id ? id : "", err);
    int result = transaction_write(s, patch_body, &a, err);
    if (result == 0)
        told_workspace(a.old, a.ret);
    if (result == 0 && ret)
        *ret = json_deep_copy(a.ret);
    json_decref(a.old);
    json_decref(a.ret);
    return result;
}

/* ---- creating ---- */
struct create_arguments {
    json_t *record;
    const struct state_idempotency *idem;
    char hash[ID_HASH_SIZE];
    int64_t max_workspaces;
    struct uid_range uids;
    json_t *existing;
    int64_t now_s;
};

/* 1 = a->existing. */
static int find_existing(struct transaction *t, struct create_arguments *a, struct error *err)
{
    char id[ID_SIZE];
    if (!a->idem)
        return 0;
    if (a->idem->key)
        return state_key_find(t, a->hash, a->now_s, &a->existing, err);
    int found = state_owner_find_named(t, member(a->record, "owner"), member(a->record, "name"), id, err);
    if (found > 0)
        a->existing = json_pack("{s:s}", "workspace_id", id);
    return found;
}

static int create_body(struct transaction *t, void *user, struct error *err)
{
    struct create_arguments *a = user;
    const char *id = member(a->record, "workspace_id");
    int found = find_existing(t, a, err);
    if (found != 0)
        return found;
    if ((found = transaction_get(t, TABLE_WORKSPACE, id, NULL, err)) > 0)
        return error_set(err, ERROR_CONFLICT, "workspace %s exists", id);
    if (found != 0)
        return found;
    if (a->max_workspaces > 0 && transaction_count(t, TABLE_WORKSPACE) >= a->max_workspaces)
        return error_set(err, ERROR_TOO_MANY,
                         "there are %" PRId64 " workspaces, the most that this gateway keeps",
                         a->max_workspaces);
    if (state_uid_give(t, &a->uids, a->record, id, err) < 0 || state_owner_number(t, a->record, err) < 0 ||
        (a->idem && a->idem->key && state_key_put(t, a->idem, a->hash, a->now_s, id, err) < 0) ||
        state_owner_put(t, member(a->record, "owner"), id, err) < 0)
        return -1;
    return transaction_put(t, TABLE_WORKSPACE, id, a->record, err);
}

int state_create_workspace(struct state *s, json_t *record, const struct state_idempotency *idem,
                           int64_t max_workspaces, int64_t uid_base, int64_t uid_count, json_t **ret_existing,
                           struct error *err)
{
    struct create_arguments a = {
        .record = record,
        .idem = idem,
        .max_workspaces = max_workspaces,
        .uids = { uid_base, uid_count },
        .now_s = clock_wall_s(),
    };
    if (!id_is_valid(ID_WORKSPACE, member(record, "workspace_id")))
        return error_set(err, ERROR_INTERNAL, "a workspace needs its id");
    if (idem && idem->key)
        state_key_hash(idem->principal, idem->key, a.hash);
    int result = transaction_write(s, create_body, &a, err);
    if (result == 0)
        told_workspace(NULL, record);
    if (result == 1 && ret_existing)
        *ret_existing = state_key_public(a.existing);
    json_decref(a.existing);
    return result;
}

/* ---- removing ---- */
static int remove_body(struct transaction *t, void *user, struct error *err)
{
    struct record_arguments *a = user;
    json_auto_t *record = NULL;
    int found = transaction_get(t, TABLE_WORKSPACE, a->id, &record, err);
    if (found <= 0)
        return found < 0 ? -1 : 1;
    take_result(&a->old, json_incref(record));
    if (state_uid_release(t, record, a->id, err) < 0 || state_key_release(t, a->id, a->forget_key, err) < 0 ||
        state_owner_delete(t, member(record, "owner"), a->id, err) < 0)
        return -1;
    return transaction_delete(t, TABLE_WORKSPACE, a->id, err);
}

int state_remove_workspace(struct state *s, const char *id, bool forget_key, struct error *err)
{
    struct record_arguments a = { .id = id, .forget_key = forget_key };
    if (!id_is_valid(ID_WORKSPACE, id))
        return 0;
    int result = transaction_remove(s, remove_body, &a, err);
    if (result == 0)
        told_workspace(a.old, NULL);
    json_decref(a.old);
    return result < 0 ? -1 : 0;
}

/* ---- lists ---- */
struct list_arguments {
    const char *owner, *after;
    size_t limit;
    json_t *array;
};

static int list_one(void *user, const char *key, const json_t *value, struct error *err)
{
    struct list_arguments *a = user;
    (void)err;
    if (a->after && strcmp(key, a->after) <= 0)
        return 0;
    json_array_append(a->array, (json_t *)value);
    return json_array_size(a->array) >= a->limit;
}

static int list_body(struct transaction *t, void *user, struct error *err)
{
    struct list_arguments *a = user;
    if (a->limit == 0)
        return 0;
    int result = a->owner ? state_owner_each(t, a->owner, a->after, list_one, a, err)
                          : transaction_each(t, TABLE_WORKSPACE, a->after ? a->after : "", list_one, a, err);
    return result < 0 ? -1 : 0;
}

int state_list_workspaces(struct state *s, const char *owner, const char *after, size_t limit, json_t **ret,
                          struct error *err)
{
    json_auto_t *array = json_array();
    struct list_arguments a = { .owner = owner, .after = after, .limit = limit, .array = array };
    if (transaction_read(s, list_body, &a, err) < 0)
        return -1;
    *ret = json_incref(array);
    return 0;
}

struct find_arguments {
    const char *owner, *name;
    char *id;
    int found;
};

static int find_body(struct transaction *t, void *user, struct error *err)
{
    struct find_arguments *a = user;
    a->found = state_owner_find_named(t, a->owner, a->name, a->id, err);
    return a->found < 0 ? -1 : 0;
}

int state_find_named(struct state *s, const char *owner, const char *name, char id[static ID_SIZE],
                     struct error *err)
{
    struct find_arguments a = { .owner = owner, .name = name, .id = id };
    return transaction_read(s, find_body, &a, err) < 0 ? -1 : a.found;
}

int state_visit_workspaces(struct state *s, state_visit *visit, void *user, struct error *err)
{
    char after[ID_SIZE] = "";
    for (size_t count = VISITED_AT_ONCE; count == VISITED_AT_ONCE;) {
        json_auto_t *records = NULL;
        json_t *record;
        size_t i;
        if (state_list_workspaces(s, NULL, after[0] ? after : NULL, VISITED_AT_ONCE, &records, err) < 0)
            return -1;
        count = json_array_size(records);
        json_array_foreach(records, i, record) {
            const char *id = json_string_value(json_object_get(record, "workspace_id"));
            if (!id_is_valid(ID_WORKSPACE, id))
                continue;
            memcpy(after, id, ID_SIZE);
            visit(user, id, record);
        }
    }
    return 0;
}
