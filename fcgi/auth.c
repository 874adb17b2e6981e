/* Who is calling: a bearer token becomes a principal. Secrets are compared in constant time or by hash, and
 * never leave this file. It knows no route and no operation. */
#include "fcgi/auth.h"

#include "lib/base/ids.h"

#include <strings.h>

#define TOKEN_MAX 4096

static bool scope_named(const json_t *scopes, const char *name)
{
    size_t index;
    const json_t *scope;
    json_array_foreach(scopes, index, scope) {
        if (json_is_string(scope) && strcmp(json_string_value(scope), name) == 0)
            return true;
    }
    return false;
}

/* admin holds write, write holds read. */
static void principal_from_record(const json_t *record, struct principal *ret)
{
    const json_t *scopes = json_object_get(record, "scopes");
    const char *name = json_string_value(json_object_get(record, "principal"));
    const char *workspace_id = json_string_value(json_object_get(record, "workspace_id"));
    ret->name = xstrdup(name ? name : "owner");
    ret->admin = scope_named(scopes, "admin");
    ret->write = ret->admin || scope_named(scopes, "write");
    ret->read = ret->write || scope_named(scopes, "read");
    ret->workspace_id = workspace_id ? xstrdup(workspace_id) : NULL;
}

static int wrong(const struct config *config, struct state *state, const char *message, struct error *err)
{
    if (config->token[0] == '\0' && state_count_tokens(state, NULL) == 0)
        return error_set(err, ERROR_UNAVAILABLE, "this gateway has no token configured");
    return error_set(err, ERROR_UNAUTHORIZED, "%s", message);
}

int auth_check(const struct config *config, struct state *state, const char *authorization,
               struct principal *ret, struct error *err)
{
    static const char scheme[] = "Bearer ";
    if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
        return wrong(config, state, "a bearer token is required", err);
    const char *token = authorization + sizeof(scheme) - 1;
    size_t length = strnlen(token, TOKEN_MAX + 1);
    if (length == 0 || length > TOKEN_MAX)
        return wrong(config, state, "the bearer token is not valid", err);
    if (config->token[0] != '\0' && id_secret_equal(config->token, token)) {
        *ret = (struct principal){ .name = xstrdup("owner"), .read = true, .write = true, .admin = true };
        return 0;
    }
    char hash[ID_HASH_SIZE];
    id_hash(token, length, hash);
    json_auto_t *record = NULL;
    _cleanup_error_ struct error problem = ERROR_INIT;
    if (state_find_token(state, hash, &record, &problem) < 0) {
        if (problem.code != ERROR_NOT_FOUND) {
            error_move(err, &problem);
            return -1;
        }
        return wrong(config, state, "the bearer token is not valid", err);
    }
    principal_from_record(record, ret);
    return 0;
}

const char *auth_challenge(const char *authorization, const struct error *err)
{
    if (err->code != ERROR_UNAUTHORIZED)
        return NULL;
    return authorization ? "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n"
                         : "WWW-Authenticate: Bearer\r\n";
}

void principal_clear(struct principal *p)
{
    free(STEAL(p->name));
    free(STEAL(p->workspace_id));
    p->read = p->write = p->admin = false;
}
