/* Owns the order in which the state store's layout changed. A row that was released is never edited: another
 * one follows it. */
#include "lib/store/migrate.h"

#include "lib/base/log.h"

static const struct migration migrations[] = {
    { 1, "the first tables", NULL },
};

struct arguments {
    const struct migration *rows;
    size_t count;
};

static int read_version(struct transaction *t, json_int_t *ret, struct error *err)
{
    json_auto_t *version = NULL;
    int found = transaction_get(t, TABLE_META, "version", &version, err);
    if (found < 0)
        return -1;
    if (found > 0 && !json_is_integer(version))
        return error_set(err, ERROR_INTERNAL, "the version of the state store is damaged");
    *ret = found > 0 ? json_integer_value(version) : 0;
    return 0;
}

/* 1 = nothing to do. */
static int check_version(struct transaction *t, void *user, struct error *err)
{
    const struct arguments *arguments = user;
    json_int_t version, newest = arguments->rows[arguments->count - 1].version;
    if (read_version(t, &version, err) < 0)
        return -1;
    if (version > newest)
        return error_set(
            err, ERROR_UNAVAILABLE,
            "the state store has version %lld, this program knows up to %lld: use the newer program",
            (long long)version, (long long)newest);
    return version == newest;
}

static int run_rows(struct transaction *t, void *user, struct error *err)
{
    const struct arguments *arguments = user;
    json_int_t version;
    int done = check_version(t, user, err);
    if (done != 0 || read_version(t, &version, err) < 0)
        return done != 0 ? done : -1;
    for (size_t i = 0; i < arguments->count; i++) {
        const struct migration *row = &arguments->rows[i];
        if (row->version <= version)
            continue;
        log_info("state: version %d: %s", row->version, row->name);
        if (row->run && row->run(t, err) < 0)
            return error_wrap(err, "state version %d", row->version);
        version = row->version;
    }
    json_auto_t *now = json_integer(version);
    return transaction_put(t, TABLE_META, "version", now, err);
}

int migrate_rows(struct state *s, const struct migration *rows, size_t count, struct error *err)
{
    struct arguments arguments = { rows, count };
    int result = transaction_read(s, check_version, &arguments, err);
    if (result == 0)
        result = transaction_write(s, run_rows, &arguments, err);
    return result < 0 ? -1 : 0;
}

int migrate_state(struct state *s, struct error *err)
{
    return migrate_rows(s, migrations, N_ELEMENTS(migrations), err);
}
