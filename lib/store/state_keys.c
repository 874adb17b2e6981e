/* Owns the idempotency keys of creating workspaces: found by the hash of principal and key, until they
 * expire. Knows nothing of what was created. */
#include "lib/store/state_keys.h"

#include "lib/base/clock.h"

static const char *member(const json_t *record, const char *name)
{
    const char *text = json_string_value(json_object_get(record, name));
    return text ? text : "";
}

/* ---- within a transaction ---- */
void state_key_hash(const char *principal, const char *key, char hash[static ID_HASH_SIZE])
{
    _cleanup_free_ char *both = xasprintf("%s\n%s", principal, key);
    id_hash(both, strlen(both), hash);
}

int state_key_find(struct transaction *t, const char *hash, int64_t now_s, json_t **ret, struct error *err)
{
    json_t *record = NULL;
    int found = transaction_get(t, TABLE_KEY, hash, &record, err);
    if (found <= 0)
        return found;
    if (json_integer_value(json_object_get(record, "expires_s")) <= now_s) {
        json_decref(record);
        return 0;
    }
    *ret = record;
    return 1;
}

int state_key_put(struct transaction *t, const struct state_idempotency *idem, const char *hash,
                  int64_t now_s, const char *id, struct error *err)
{
    json_auto_t *record =
        json_pack("{s:i, s:s, s:s, s:I}", "v", 1, "workspace_id", id, "digest",
                  idem->digest ? idem->digest : "", "expires_s", (json_int_t)(now_s + idem->ttl_s));
    json_auto_t *value = json_string(hash);
    if (transaction_put(t, TABLE_KEY, hash, record, err) < 0)
        return -1;
    return transaction_put(t, TABLE_WORKSPACE_KEY, id, value, err);
}

int state_key_release(struct transaction *t, const char *id, bool forget, struct error *err)
{
    json_auto_t *hash = NULL;
    int found = transaction_get(t, TABLE_WORKSPACE_KEY, id, &hash, err);
    if (found <= 0)
        return found;
    if (forget && json_is_string(hash) && transaction_delete(t, TABLE_KEY, json_string_value(hash), err) < 0)
        return -1;
    return transaction_delete(t, TABLE_WORKSPACE_KEY, id, err);
}

json_t *state_key_public(const json_t *record)
{
    return json_pack("{s:s, s:s}", "workspace_id", member(record, "workspace_id"), "digest",
                     member(record, "digest"));
}

/* ---- for everybody ---- */
struct key_arguments {
    char hash[ID_HASH_SIZE];
    int64_t now_s;
    json_t *record, *expired;
};

static int find_key_body(struct transaction *t, void *user, struct error *err)
{
    struct key_arguments *a = user;
    int found = state_key_find(t, a->hash, a->now_s, &a->record, err);
    return found == 0  ? error_set(err, ERROR_NOT_FOUND, "this Idempotency-Key was not used")
           : found < 0 ? -1
                       : 0;
}

int state_find_idempotency(struct state *s, const char *principal, const char *key, json_t **ret,
                           struct error *err)
{
    struct key_arguments a = { .now_s = clock_wall_s() };
    state_key_hash(principal, key, a.hash);
    if (transaction_read(s, find_key_body, &a, err) < 0)
        return -1;
    *ret = state_key_public(a.record);
    json_decref(a.record);
    return 0;
}

static int collect_expired(void *user, const char *key, const json_t *value, struct error *err)
{
    struct key_arguments *a = user;
    (void)err;
    if (json_integer_value(json_object_get(value, "expires_s")) <= a->now_s)
        json_array_append_new(a->expired, json_string(key));
    return 0;
}

static int collect_body(struct transaction *t, void *user, struct error *err)
{
    return transaction_each(t, TABLE_KEY, "", collect_expired, user, err);
}

static int prune_body(struct transaction *t, void *user, struct error *err)
{
    struct key_arguments *a = user;
    size_t i;
    json_t *key;
    json_array_foreach(a->expired, i, key) {
        json_auto_t *record = NULL;
        int found = transaction_get(t, TABLE_KEY, json_string_value(key), &record, err);
        /* Used again since it was collected: it stays. */
        if (found > 0 && json_integer_value(json_object_get(record, "expires_s")) > a->now_s)
            continue;
        if (found < 0 || transaction_delete(t, TABLE_KEY, json_string_value(key), err) < 0)
            return -1;
    }
    return 0;
}

/* Looks first: a write is a durable commit. */
int state_prune(struct state *s, int64_t now_s, struct error *err)
{
    json_auto_t *expired = json_array();
    struct key_arguments a = { .now_s = now_s, .expired = expired };
    if (transaction_read(s, collect_body, &a, err) < 0)
        return -1;
    return json_array_size(expired) == 0 ? 0 : transaction_write(s, prune_body, &a, err);
}

/* ---- clocks ---- */
struct clock_arguments {
    const json_t *put;
    json_t *got;
};

static int get_clock_body(struct transaction *t, void *user, struct error *err)
{
    struct clock_arguments *a = user;
    return transaction_get(t, TABLE_META, "clock", &a->got, err) < 0 ? -1 : 0;
}

static int put_clock_body(struct transaction *t, void *user, struct error *err)
{
    struct clock_arguments *a = user;
    return transaction_put(t, TABLE_META, "clock", a->put, err);
}

void state_get_clock(struct state *s, json_t **ret)
{
    struct clock_arguments a = { .got = NULL };
    transaction_read(s, get_clock_body, &a, NULL);
    *ret = a.got;
}

int state_put_clock(struct state *s, const json_t *clock, struct error *err)
{
    struct clock_arguments a = { .put = clock };
    return transaction_write(s, put_clock_body, &a, err);
}
