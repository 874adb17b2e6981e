/* The open documents: rendered once for each server URL, kept as text. A row for each path. */
#include "fcgi/documents.h"

#include "lib/base/log.h"
#include "lib/base/version.h"
#include "lib/op/describe.h"

#include <ctype.h>
#include <strings.h>

#define MODE "realtime-workspace"

struct documents {
    const struct config *config;
    char *url; /* that actions and openapi are made for */
    char *actions, *openapi;
};

struct documents *documents_new(const struct config *config)
{
    struct documents *d = xcalloc(1, sizeof(*d));
    d->config = config;
    return d;
}

void documents_free(struct documents *d)
{
    if (!d)
        return;
    free(d->url);
    free(d->actions);
    free(d->openapi);
    free(d);
}

/* ---- where we are ---- */

bool documents_host_is_loopback(const char *host)
{
    static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        size_t length = strlen(names[i]);
        if (strncasecmp(host, names[i], length) != 0)
            continue;
        const char *after = host + length;
        if (*after == ':') {
            after++;
            while (isdigit((unsigned char)*after))
                after++;
        }
        if (*after == '\0')
            return true;
    }
    return false;
}

char *documents_server_url(const struct config *config, const struct request *r)
{
    size_t length = strlen(config->base_url);
    while (length > 0 && config->base_url[length - 1] == '/')
        length--;
    if (length > 0)
        return xstrndup(config->base_url, length);
    if (r->host && documents_host_is_loopback(r->host))
        return xasprintf("%s://%s%s", r->https ? "https" : "http", r->host, config->mount);
    return xstrdup(config->mount[0] ? config->mount : "/");
}

/* ---- what they say ---- */

static bool has_toolset(const char *name)
{
    for (const struct op *const *op = ops; *op; op++) {
        if (strcmp((*op)->toolset, name) == 0)
            return true;
    }
    return false;
}

/* prefix: see config_prefix */
static json_t *home(const char *prefix)
{
    return json_pack("{s:b, s:s, s:s, s:s, s:s+, s:s+, s:s+}", "ok", 1, "service", WORKSPACE_NAME, "version",
                     WORKSPACE_VERSION, "mode", MODE, "health", prefix, "/healthz", "mcp", prefix, "/mcp/",
                     "gpt_actions_schema", prefix, "/action-openapi.json");
}

static json_t *health(const char *prefix)
{
    return json_pack("{s:b, s:s, s:s, s:b, s:b, s:b, s:b, s:s+, s:s+}", "ok", 1, "service", WORKSPACE_NAME,
                     "version", WORKSPACE_VERSION, "realtime_exec", 1, "workspace", 1, "github_repo",
                     has_toolset("repo"), "filesystem_watch", has_toolset("watch"), "mcp", prefix, "/mcp/",
                     "gpt_actions_schema", prefix, "/action-openapi.json");
}

/* What is true of these settings. */
static void append_privacy(const struct config *config, struct buffer *out)
{
    bool audited = strcmp(config->audit, "off") != 0;
    buffer_append_text(
        out, "This gateway runs on a machine of its operator. It keeps what you send to a workspace (files, "
             "commands and their\n"
             "output) on that machine until the workspace is removed or the retention time in its settings "
             "has passed, so that\n"
             "you can read it again. It logs for each call the time, the name of your token, the operation, "
             "the ids, the status\n"
             "and the duration.\n");
    if (audited)
        buffer_append_text(
            out,
            "Its operator's audit log also keeps your address and what you asked for: commands, paths and "
            "patterns as you wrote\n"
            "them, up to 200 characters each. A secret that you write into a command stands there too: give "
            "it "
            "as a variable\n"
            "(env), of which names alone are kept.\n");
    buffer_append_text(out, "Tokens, values of variables, contents of files and output are in no log.\n");
    if (config->shared_packages_mib > 0 && strcmp(config->network, "none") != 0)
        buffer_append_text(out, "Python packages that workspaces bring from the public index are asked for "
                                "once more there, by name "
                                "and version, to be\n"
                                "shared by all: who works here can see which are used, but not by whom.\n");
    buffer_append_text(out, "Nothing else goes to third parties but what your own commands send.\n");
}

static const char home_page[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
    "content=\"width=device-width\">"
    "<title>workspace-fcgi</title><body style=\"font-family:sans-serif;max-width:40em;margin:3em "
    "auto;padding:0 1em\">"
    "<h1>workspace-fcgi</h1><p>Remote workspaces for agents.</p><ul>"
    "<li>MCP: <code>mcp/</code></li><li>REST: <code>api/</code>, described in <a "
    "href=\"openapi.json\">openapi.json</a></li>"
    "<li>GPT Actions: <a href=\"action-openapi.json\">action-openapi.json</a></li>"
    "<li><a href=\"healthz\">Health</a></li><li><a href=\"privacy\">Privacy</a></li></ul></body></html>\n";

static char *print(json_t *value, size_t flags)
{
    char *text = json_dumps(value, flags);
    json_decref(value);
    if (!text)
        abort();
    return text;
}

static void make_for(struct documents *d, const struct request *r)
{
    _cleanup_free_ char *url = documents_server_url(d->config, r);
    if (d->url && strcmp(d->url, url) == 0)
        return;
    free(d->url);
    free(STEAL(d->actions));
    free(STEAL(d->openapi));
    d->url = STEAL(url);
}

/* ---- answers ---- */

static void reply_text(struct exchange *x, const char *type, const char *text)
{
    x->carrier->reply(x, 200, type, NULL, text, strlen(text));
}

static void reply_home(struct service *s, struct exchange *x)
{
    const char *accept = request_header(x->request, "accept");
    if (accept && strstr(accept, "text/html")) {
        reply_text(x, "text/html; charset=utf-8", home_page);
        return;
    }
    json_auto_t *value = home(config_prefix(s->config));
    exchange_reply_json(x, 200, NULL, value);
}

static void reply_health(struct service *s, struct exchange *x)
{
    json_auto_t *value = health(config_prefix(s->config));
    exchange_reply_json(x, 200, NULL, value);
}

static void reply_privacy(struct service *s, struct exchange *x)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    append_privacy(s->config, &text);
    reply_text(x, "text/plain; charset=utf-8", buffer_text(&text));
}

static void reply_described(struct documents *d, struct exchange *x, char **text,
                            json_t *(*describe)(const struct config *config, const char *server_url))
{
    make_for(d, x->request);
    if (!*text)
        *text = print(describe(d->config, d->url), JSON_COMPACT);
    reply_text(x, "application/json", *text);
}

static void reply_actions(struct service *s, struct exchange *x)
{
    reply_described(s->documents, x, &s->documents->actions, describe_actions);
}

static void reply_openapi(struct service *s, struct exchange *x)
{
    reply_described(s->documents, x, &s->documents->openapi, describe_openapi);
}

static const struct document {
    const char *path;
    void (*reply)(struct service *s, struct exchange *x);
} document_rows[] = {
    { "/", reply_home },
    { "/healthz", reply_health },
    { "/privacy", reply_privacy },
    { "/action-openapi.json", reply_actions },
    { "/openapi.json", reply_openapi },
};

static void reply_method(struct exchange *x)
{
    static const char allow[] = "Allow: GET, HEAD, OPTIONS\r\n";
    _cleanup_error_ struct error err = ERROR_INIT;
    if (strcmp(x->request->method, "OPTIONS") == 0) {
        x->carrier->reply(x, 204, "text/plain", allow, "", 0);
        return;
    }
    error_set(&err, ERROR_METHOD, "the method is not allowed here; allowed: GET, HEAD");
    exchange_reply_error(x, &err, allow);
}

bool documents_has(const char *path)
{
    for (size_t i = 0; i < N_ELEMENTS(document_rows); i++)
        if (strcmp(path, document_rows[i].path) == 0)
            return true;
    return false;
}

/* The carrier leaves the body of an answer to HEAD out. */
static bool is_read(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

bool documents_handle(struct service *s, struct exchange *x)
{
    for (size_t i = 0; i < N_ELEMENTS(document_rows); i++) {
        if (strcmp(x->request->path, document_rows[i].path) != 0)
            continue;
        if (is_read(x->request->method))
            document_rows[i].reply(s, x);
        else
            reply_method(x);
        return true;
    }
    return false;
}
