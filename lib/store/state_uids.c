/* Owns which user id belongs to which workspace. Knows nothing of what a process may do under it. */
#include "lib/store/state_uids.h"

#include "lib/base/memory.h"

#include <inttypes.h>
#include <stdio.h>

#define UID_KEY_SIZE 11
#define UID_LIMIT    INT64_C(4294967295)

static void uid_key(int64_t uid, char key[static UID_KEY_SIZE])
{
    snprintf(key, UID_KEY_SIZE, "%010" PRIu32, (uint32_t)uid);
}

struct gap {
    int64_t candidate, end;
};

static int find_gap(void *user, const char *key, const json_t *value, struct error *err)
{
    struct gap *gap = user;
    (void)value, (void)err;
    if (strtoll(key, NULL, 10) != gap->candidate)
        return 1;
    gap->candidate++;
    return gap->candidate >= gap->end;
}

static int first_free(struct transaction *t, int64_t from, int64_t end, int64_t *ret, struct error *err)
{
    char key[UID_KEY_SIZE];
    struct gap gap = { from, end };
    if (from >= end)
        return 0;
    uid_key(from, key);
    if (transaction_each(t, TABLE_UID, key, find_gap, &gap, err) < 0)
        return -1;
    *ret = gap.candidate;
    return gap.candidate < end;
}

/* Round and round, so that a uid rests as long as can be before another workspace gets it. */
static int pick_uid(struct transaction *t, const struct uid_range *range, int64_t *ret, struct error *err)
{
    json_auto_t *stored = NULL;
    int64_t end = range->base + range->count;
    if (transaction_get(t, TABLE_META, "next_uid", &stored, err) < 0)
        return -1;
    int64_t next = json_integer_value(stored);
    if (next < range->base || next >= end)
        next = range->base;
    int found = first_free(t, next, end, ret, err);
    if (found == 0)
        found = first_free(t, range->base, next, ret, err);
    if (found < 0)
        return -1;
    if (found == 0)
        return error_set(err, ERROR_TOO_MANY, "all %" PRId64 " user ids for workspaces are taken",
                         range->count);
    json_auto_t *following = json_integer(*ret + 1);
    return transaction_put(t, TABLE_META, "next_uid", following, err);
}

int state_uid_give(struct transaction *t, const struct uid_range *range, json_t *record, const char *id,
                   struct error *err)
{
    char key[UID_KEY_SIZE];
    int64_t uid = 0;
    if (range->count <= 0)
        return 0;
    if (range->base < 1 || range->count > UID_LIMIT || range->base > UID_LIMIT - range->count)
        return error_set(err, ERROR_INTERNAL, "the range of user ids is none");
    if (pick_uid(t, range, &uid, err) < 0)
        return -1;
    json_object_set_new(record, "uid", json_integer(uid));
    json_auto_t *value = json_string(id);
    uid_key(uid, key);
    return transaction_put(t, TABLE_UID, key, value, err);
}

int state_uid_release(struct transaction *t, const json_t *record, const char *id, struct error *err)
{
    char key[UID_KEY_SIZE];
    json_auto_t *holder = NULL;
    int64_t uid = json_integer_value(json_object_get(record, "uid"));
    if (uid <= 0 || uid > UID_LIMIT)
        return 0;
    uid_key(uid, key);
    int found = transaction_get(t, TABLE_UID, key, &holder, err);
    if (found <= 0 || !json_is_string(holder) || strcmp(json_string_value(holder), id) != 0)
        return found < 0 ? -1 : 0;
    return transaction_delete(t, TABLE_UID, key, err);
}
