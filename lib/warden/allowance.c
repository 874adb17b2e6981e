/* Owns the count of what each principal had an index asked for, in run/packages.json of the state directory,
 * so that it outlives the chore that counts. Knows no packages. */
#include "lib/warden/allowance.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"

#include <fcntl.h>

#define HOUR_S     3600
#define FILE_LIMIT (4u << 20)

static char *file_of(const struct config *config)
{
    return config_path(config, "run", "packages.json");
}

static int64_t member(const json_t *all, const char *principal, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(all, principal), name));
}

/* One of the future is of a clock that was set back. */
static void drop_past(json_t *all)
{
    const char *principal;
    json_t *value;
    void *next;
    int64_t now = clock_wall_us() / 1000000;
    json_object_foreach_safe(all, next, principal, value) {
        int64_t since = member(all, principal, "since");
        if (since <= now - HOUR_S || since > now)
            json_object_del(all, principal);
    }
}

json_t *allowance_load(const struct config *config)
{
    _cleanup_free_ char *path = file_of(config);
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    _cleanup_error_ struct error err = ERROR_INIT;
    if (access(path, F_OK) < 0)
        return json_object();
    int result = io_read_file(AT_FDCWD, path, FILE_LIMIT, &text, &err);
    json_t *all = result < 0 ? NULL : json_loadb(text.data, text.length, 0, NULL);
    if (!json_is_object(all)) {
        log_error("shared packages: what was asked for cannot be read, and is counted anew");
        json_decref(all);
        return json_object();
    }
    drop_past(all);
    return all;
}

int allowance_save(const struct config *config, const json_t *all, struct error *err)
{
    _cleanup_free_ char *path = file_of(config), *text = json_dumps(all, JSON_COMPACT);
    return io_replace_file(AT_FDCWD, path, text, strlen(text), 0600, err);
}

void allowance_charge(json_t *all, const char *principal, const struct charge *charge)
{
    int64_t since = member(all, principal, "since");
    json_object_set_new(
        all, principal,
        json_pack("{s:I, s:I, s:I, s:I}", "since", (json_int_t)(since ? since : clock_wall_us() / 1000000),
                  "asked", (json_int_t)(member(all, principal, "asked") + charge->asked), "refused",
                  (json_int_t)(member(all, principal, "refused") + charge->refused), "took_ms",
                  (json_int_t)(member(all, principal, "took_ms") + charge->took_ms)));
}

int64_t allowance_took(const json_t *all, const char *principal)
{
    return member(all, principal, "took_ms");
}

size_t allowance_left(const json_t *all, const char *principal)
{
    int64_t asked = ALLOWANCE_ASKED - member(all, principal, "asked"),
            refused = ALLOWANCE_REFUSED - member(all, principal, "refused"),
            left = asked < refused ? asked : refused;
    if (json_object_size(all) >= ALLOWANCE_PRINCIPALS && !json_object_get(all, principal))
        return 0;
    return left > 0 ? (size_t)left : 0;
}
