/* Owns the index of workspaces by owner, and the order in which they were made: clocks differ and jump, so it
 * is counted where the record is written. Knows nothing of what a name is for. */
#include "lib/store/state_owners.h"

#include <stdio.h>

/* ---- keys ---- */
#define OWNER_KEY_SIZE (ID_HASH_SIZE + ID_SIZE)

/* Owners are names from outside, of any length; hashed, they are keys. */
static void owner_key(const char *owner, const char *id, char key[static OWNER_KEY_SIZE])
{
    id_hash(owner, strlen(owner), key);
    snprintf(key + ID_HASH_SIZE - 1, ID_SIZE, "%s", id);
}

int state_owner_put(struct transaction *t, const char *owner, const char *id, struct error *err)
{
    char key[OWNER_KEY_SIZE];
    owner_key(owner, id, key);
    return transaction_put(t, TABLE_OWNER, key, json_true(), err);
}

int state_owner_delete(struct transaction *t, const char *owner, const char *id, struct error *err)
{
    char key[OWNER_KEY_SIZE];
    owner_key(owner, id, key);
    return transaction_delete(t, TABLE_OWNER, key, err);
}

/* ---- each ---- */
struct each {
    struct transaction *t;
    const char *after;
    char from[OWNER_KEY_SIZE];
    transaction_take *take;
    void *user;
    int result; /* what take returned */
};

static int each_key(void *user, const char *key, const json_t *value, struct error *err)
{
    struct each *e = user;
    json_auto_t *record = NULL;
    (void)value;
    if (strncmp(key, e->from, ID_HASH_SIZE - 1) != 0)
        return 1;
    const char *id = key + ID_HASH_SIZE - 1;
    if (e->after && strcmp(id, e->after) <= 0)
        return 0;
    int found = transaction_get(e->t, TABLE_WORKSPACE, id, &record, err);
    if (found <= 0)
        return found;
    e->result = e->take(e->user, id, record, err);
    return e->result;
}

int state_owner_each(struct transaction *t, const char *owner, const char *after, transaction_take *take,
                     void *user, struct error *err)
{
    struct each e = { .t = t, .after = after, .take = take, .user = user };
    owner_key(owner, after ? after : "", e.from);
    return transaction_each(t, TABLE_OWNER, e.from, each_key, &e, err) < 0 ? -1 : e.result;
}

/* ---- the order ---- */
int state_owner_number(struct transaction *t, json_t *record, struct error *err)
{
    json_auto_t *last = NULL;
    if (transaction_get(t, TABLE_META, "last_number", &last, err) < 0)
        return -1;
    json_auto_t *number = json_integer(json_integer_value(last) + 1);
    json_object_set(record, "number", number);
    return transaction_put(t, TABLE_META, "last_number", number, err);
}

struct named {
    const char *name;
    char *id;
    json_int_t number, created_us; /* of the best so far */
};

/* Those that are older than numbers have none, and their time as ever. */
static int is_older(const struct named *best, json_int_t number, json_int_t created_us, const char *id)
{
    if (number != best->number)
        return number < best->number;
    if (created_us != best->created_us)
        return created_us < best->created_us;
    return strcmp(id, best->id) < 0;
}

static int look_at(void *user, const char *id, const json_t *record, struct error *err)
{
    struct named *best = user;
    const char *name = json_string_value(json_object_get(record, "name"));
    json_int_t number = json_integer_value(json_object_get(record, "number"));
    json_int_t created_us = json_integer_value(json_object_get(record, "created_us"));
    (void)err;
    if (!name || strcmp(name, best->name) != 0 || (best->id[0] && !is_older(best, number, created_us, id)))
        return 0;
    snprintf(best->id, ID_SIZE, "%s", id);
    best->number = number;
    best->created_us = created_us;
    return 0;
}

int state_owner_find_named(struct transaction *t, const char *owner, const char *name,
                           char id[static ID_SIZE], struct error *err)
{
    struct named best = { .name = name, .id = id };
    id[0] = '\0';
    if (state_owner_each(t, owner, NULL, look_at, &best, err) < 0)
        return -1;
    return id[0] != '\0';
}
