/* The way in to MCP: who may send a POST, and which sets of tools its path names. What a POST says is read in
 * post.c. */
#include "fcgi/mcp/mcp.h"

#include "fcgi/audited.h"
#include "fcgi/auth.h"
#include "fcgi/body.h"
#include "fcgi/documents.h"
#include "fcgi/mcp/post.h"
#include "lib/base/log.h"
#include "lib/op/describe.h"

#include <strings.h>

/* A browser sends Origin: only our own pages, and pages of this machine, may talk to us. */
static bool origin_is_allowed(const struct config *config, const char *origin)
{
    const char *base = config->base_url;
    const char *host = strstr(base, "://");
    if (host) {
        size_t length = (size_t)(host + 3 - base) + strcspn(host + 3, "/");
        if (strlen(origin) == length && strncasecmp(origin, base, length) == 0)
            return true;
    }
    if (strncasecmp(origin, "http://", 7) == 0)
        return documents_host_is_loopback(origin + 7);
    return strncasecmp(origin, "https://", 8) == 0 && documents_host_is_loopback(origin + 8);
}

/* "/mcp", "/mcp/", "/mcp/repo,file", "/mcp/repo,file/": the sets, or "". NULL: another path. */
static char *sets_of(const char *path)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char **parts = NULL;
    size_t count = 0;
    if (request_split_path(path, &parts, &count, &err) < 0)
        return NULL;
    if (count == 1 || (count == 2 && parts[1][0] == '\0'))
        return xstrdup("");
    bool fits = count == 2 || (count == 3 && parts[2][0] == '\0');
    return fits ? xstrdup(parts[1]) : NULL;
}

static void reject(struct exchange *x, enum error_code code, const char *headers, const char *message)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    error_set(&err, code, "%s", message);
    log_info("request=%s method=%s path=%s status=%d error=%s", x->request_id, x->request->method,
             x->request->path, error_status(code), error_type(code));
    exchange_reply_error(x, &err, headers);
}

static void wrong_set(struct exchange *x)
{
    _cleanup_free_ char *known = describe_toolsets();
    _cleanup_free_ char *message = xasprintf("there is no such set of tools; there are: %s", known);
    reject(x, ERROR_NOT_FOUND, NULL, message);
}

static void wrong_method(struct exchange *x)
{
    static const char allow[] = "Allow: POST\r\n";
    if (strcmp(x->request->method, "OPTIONS") == 0)
        x->carrier->reply(x, 204, NULL, allow, "", 0);
    else
        reject(x, ERROR_METHOD, allow, "the method is not allowed here; allowed: POST");
}

static void admit(struct service *s, struct exchange *x, const char *sets)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct principal principal = { 0 };
    if (auth_check(s->config, s->state, x->request->authorization, &principal, &err) < 0) {
        audited_stranger(x, &err);
        reject(x, err.code, auth_challenge(x->request->authorization, &err), err.message);
        return;
    }
    if (!body_is_json(x->request)) {
        principal_clear(&principal);
        reject(x, ERROR_MEDIA_TYPE, NULL, BODY_MUST_BE_JSON);
        return;
    }
    post_begin(s, x, &principal, sets);
}

void mcp_handle(struct service *s, struct exchange *x)
{
    const char *origin = request_header(x->request, "origin");
    if (origin && !origin_is_allowed(s->config, origin)) {
        reject(x, ERROR_FORBIDDEN, NULL,
               "this origin is not allowed: web pages of WORKSPACE_BASE_URL and of this machine are");
        return;
    }
    _cleanup_free_ char *sets = sets_of(x->request->path);
    if (!sets)
        reject(x, ERROR_NOT_FOUND, NULL, "there is no such path");
    else if (*sets && !mcp_tools_list(s->tools, sets))
        wrong_set(x);
    else if (strcmp(x->request->method, "POST") != 0)
        wrong_method(x);
    else
        admit(s, x, sets);
}
