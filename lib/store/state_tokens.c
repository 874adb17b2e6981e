/* Owns the records of tokens: found by the hash of the token, removed by their id. The token itself is never
 * here. */
#include "lib/store/state.h"

#include "lib/store/told.h"
#include "lib/store/transaction.h"

struct token_arguments {
    const char *hash, *id;
    const json_t *record;
    json_t *ret;
    int count;
};

static const char *token_id(const json_t *record)
{
    const char *id = json_string_value(json_object_get(record, "id"));
    return id ? id : "";
}

static int add_body(struct transaction *t, void *user, struct error *err)
{
    const struct token_arguments *a = user;
    json_auto_t *hash = json_string(a->hash);
    int found = transaction_get(t, TABLE_TOKEN, a->hash, NULL, err);
    if (found == 0)
        found = transaction_get(t, TABLE_TOKEN_ID, token_id(a->record), NULL, err);
    if (found != 0)
        return found < 0 ? -1 : error_set(err, ERROR_CONFLICT, "this token exists");
    if (transaction_put(t, TABLE_TOKEN_ID, token_id(a->record), hash, err) < 0)
        return -1;
    return transaction_put(t, TABLE_TOKEN, a->hash, a->record, err);
}

int state_add_token(struct state *s, const char *hash, const json_t *record, struct error *err)
{
    struct token_arguments a = { .hash = hash, .record = record };
    int result = transaction_write(s, add_body, &a, err);
    if (result == 0)
        told_token("token_added", record);
    return result;
}

static int find_body(struct transaction *t, void *user, struct error *err)
{
    struct token_arguments *a = user;
    int found = transaction_get(t, TABLE_TOKEN, a->hash, &a->ret, err);
    return found == 0 ? error_set(err, ERROR_NOT_FOUND, "no such token") : found < 0 ? -1 : 0;
}

int state_find_token(struct state *s, const char *hash, json_t **ret, struct error *err)
{
    struct token_arguments a = { .hash = hash };
    if (transaction_read(s, find_body, &a, err) < 0)
        return -1;
    *ret = a.ret;
    return 0;
}

static int list_one(void *user, const char *key, const json_t *value, struct error *err)
{
    (void)key, (void)err;
    json_array_append(user, (json_t *)value);
    return 0;
}

static int list_body(struct transaction *t, void *user, struct error *err)
{
    return transaction_each(t, TABLE_TOKEN, "", list_one, user, err);
}

int state_list_tokens(struct state *s, json_t **ret, struct error *err)
{
    json_auto_t *array = json_array();
    if (transaction_read(s, list_body, array, err) < 0)
        return -1;
    *ret = json_incref(array);
    return 0;
}

static int remove_body(struct transaction *t, void *user, struct error *err)
{
    struct token_arguments *a = user;
    json_auto_t *hash = NULL;
    int found = transaction_get(t, TABLE_TOKEN_ID, a->id, &hash, err);
    if (found <= 0)
        return found < 0 ? -1 : error_set(err, ERROR_NOT_FOUND, "no token has this id");
    json_decref(STEAL(a->ret));
    if (json_is_string(hash) && transaction_get(t, TABLE_TOKEN, json_string_value(hash), &a->ret, err) < 0)
        return -1;
    if (json_is_string(hash) && transaction_delete(t, TABLE_TOKEN, json_string_value(hash), err) < 0)
        return -1;
    return transaction_delete(t, TABLE_TOKEN_ID, a->id, err);
}

int state_remove_token(struct state *s, const char *id, struct error *err)
{
    struct token_arguments a = { .id = id };
    int result = transaction_remove(s, remove_body, &a, err);
    if (result == 0)
        told_token("token_revoked", a.ret);
    json_decref(a.ret);
    return result;
}

static int count_body(struct transaction *t, void *user, struct error *err)
{
    struct token_arguments *a = user;
    (void)err;
    a->count = (int)transaction_count(t, TABLE_TOKEN);
    return 0;
}

int state_count_tokens(struct state *s, struct error *err)
{
    struct token_arguments a = { 0 };
    return transaction_read(s, count_body, &a, err) < 0 ? -1 : a.count;
}
