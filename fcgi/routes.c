/* The paths of the operations' rows, split once. Pure. */
#include "fcgi/rest.h"

#include "lib/base/log.h"

struct routes {
    struct route *routes;
    size_t count;
};

static void split(struct route *r, const char *path)
{
    r->text = xstrdup(path[0] == '/' ? path + 1 : path);
    char *at = r->text;
    for (char *part; (part = strsep(&at, "/")) != NULL; r->count++) {
        if (r->count == ROUTE_PARTS_MAX) {
            log_error("the path %s has more than %d parts", path, ROUTE_PARTS_MAX);
            abort();
        }
        size_t length = strlen(part);
        r->parts[r->count] = part;
        if (part[0] != '{' || part[length - 1] != '}')
            continue;
        part[length - 1] = '\0';
        r->names[r->count] = part + 1;
        r->parts[r->count] = "{}";
    }
}

struct routes *routes_new(const struct op *const *rows)
{
    struct routes *r = xcalloc(1, sizeof(*r));
    while (rows[r->count])
        r->count++;
    r->routes = xcalloc(r->count + 1, sizeof(*r->routes));
    for (size_t i = 0; i < r->count; i++) {
        r->routes[i].op = rows[i];
        split(&r->routes[i], rows[i]->path);
    }
    return r;
}

void routes_free(struct routes *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++)
        free(r->routes[i].text);
    free(r->routes);
    free(r);
}

/* 0 = another path; the more fixed parts, and the earlier, the more it fits. */
static unsigned fits(const struct route *r, char *const *parts, size_t count)
{
    unsigned score = 1;
    if (r->count != count)
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (!r->names[i] && strcmp(r->parts[i], parts[i]) != 0)
            return 0;
        if (r->names[i] && parts[i][0] == '\0')
            return 0;
        score = score * 2 + (r->names[i] == NULL);
    }
    return score;
}

static void allow_method(char *allow, const char *method)
{
    size_t used = strlen(allow), more = strlen(method);
    if (strstr(allow, method) || used + more + 3 > ROUTE_ALLOW_SIZE)
        return;
    if (used > 0) {
        memcpy(allow + used, ", ", 3);
        used += 2;
    }
    memcpy(allow + used, method, more + 1);
}

/* HEAD is GET without the body (RFC 9110, 9.3.2), but where it has a row of its own. */
static bool answers(const char *own, const char *method)
{
    return strcmp(own, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(own, "GET") == 0);
}

const struct route *routes_find(const struct routes *r, const char *method, char *const *parts, size_t count,
                                char allow[static ROUTE_ALLOW_SIZE])
{
    const struct route *best = NULL;
    unsigned best_score = 0;
    allow[0] = '\0';
    for (size_t i = 0; i < r->count; i++) {
        const struct route *candidate = &r->routes[i];
        unsigned score = 2 * fits(candidate, parts, count);
        if (score == 0)
            continue;
        allow_method(allow, candidate->op->method);
        if (strcmp(candidate->op->method, "GET") == 0)
            allow_method(allow, "HEAD");
        score += strcmp(candidate->op->method, method) == 0;
        if (score > best_score && answers(candidate->op->method, method)) {
            best = candidate;
            best_score = score;
        }
    }
    return best;
}
