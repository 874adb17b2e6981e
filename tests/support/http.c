/* An HTTP client for tests (libcurl) that checks every answer of an operation against its declared result. */
#include "lib/base/buffer.h"
#include "lib/op/op.h"
#include "tests/support/instance.h"
#include "tests/support/instance_private.h"
#include "tests/support/must.h"
#include "tests/support/schema.h"

#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

void answer_clear(struct answer *a)
{
    free(a->body);
    free(a->headers);
    json_decref(a->json);
    memset(a, 0, sizeof *a);
}

const char *answer_header(const struct answer *a, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);
    for (const char *line = a->headers; line && *line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            const char *start = line + length + 1 + strspn(line + length + 1, " ");
            snprintf(value, size, "%.*s", (int)strcspn(start, "\r\n"), start);
            return value;
        }
    return NULL;
}

static size_t take_bytes(char *data, size_t size, size_t count, void *user)
{
    buffer_append(user, data, size * count);
    return size * count;
}

/* "/api/workspaces/ws-1/exec" against "/workspaces/{workspace_id}/exec". */
static bool path_matches(const char *pattern, const char *path)
{
    while (*pattern && *path && *path != '?') {
        if (*pattern == '{') {
            pattern += strcspn(pattern, "}") + 1;
            path += strcspn(path, "/?");
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *pattern == '\0' && (*path == '\0' || *path == '?');
}

static const struct op *find_op(const char *method, const char *path)
{
    if (strncmp(path, "/api/", 5) != 0)
        return NULL;
    for (const struct op *const *op = ops; *op; op++)
        if (strcmp((*op)->method, method) == 0 && path_matches((*op)->path, path + 4))
            return *op;
    return NULL;
}

static void check_documented(const struct op *op, const struct answer *a)
{
    char why[SCHEMA_WHY_SIZE];
    if (op && !schema_allows_answer(op, a->status >= 400, a->json, why))
        must(false, "%s: the answer is not what the documents say%s: %.300s", op->id, why, a->body);
}

static void check_declared(const char *method, const char *path, const struct answer *a)
{
    struct error err = ERROR_INIT;
    const struct op *op = find_op(method, path);
    if (strcmp(method, "HEAD") == 0)
        return; /* nothing but a head */
    if (a->status >= 400) {
        must(json_is_string(json_object_get(a->json, "error")) &&
                 json_is_string(json_object_get(a->json, "type")),
             "%s %s: %ld without error and type: %.200s", method, path, a->status, a->body);
        check_documented(op, a);
        return;
    }
    bool is_file = op && op->flags & OP_RAW && op->flags & OP_READ_ONLY;
    if (!op || is_file || a->status != 200 || !a->json)
        return;
    size_t count = op->flags & OP_LIST ? json_array_size(a->json) : 1;
    for (size_t k = 0; k < count; k++) {
        const json_t *value = op->flags & OP_LIST ? json_array_get(a->json, k) : a->json;
        if (field_check_result(op->result, value, &err) != 0)
            must(false, "%s: the answer is not what it declares: %s: %.300s", op->id, err.message, a->body);
    }
    check_documented(op, a);
}

static struct curl_slist *request_headers(const struct instance *i, const struct http_options *o)
{
    struct curl_slist *list = NULL;
    char line[512];
    if (!o->token || o->token[0]) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", o->token ? o->token : i->token);
        list = curl_slist_append(list, line);
    }
    if (o->body) {
        snprintf(line, sizeof line, "Content-Type: %s",
                 o->content_type ? o->content_type : "application/json");
        list = curl_slist_append(list, line);
    }
    list = curl_slist_append(list, "Expect:");
    for (const char *const *h = o->headers; h && *h; h++)
        list = curl_slist_append(list, *h);
    return list;
}

static void set_body(CURL *curl, const char *method, const struct http_options *o)
{
    if (o->body) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, o->body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)(o->length ? o->length : strlen(o->body)));
    } else if (strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)0);
    }
    if (strcmp(method, "HEAD") == 0)
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
}

static __thread CURL *curl; /* keeps its connection between requests */

void http_thread_end(void)
{
    if (curl)
        curl_easy_cleanup(curl);
    curl = NULL;
}

/* Status 0: no answer (refused, reset, timed out). */
struct answer http_send(const struct instance *i, const char *method, const char *path,
                        const struct http_options *options)
{
    static const struct http_options none;
    const struct http_options *o = options ? options : &none;
    struct answer a = { 0 };
    struct buffer body = BUFFER_INIT, headers = BUFFER_INIT;
    static __thread pid_t
        owner; /* whose connection it is: a forked child would share it, so closes its copy */
    if (owner != getpid())
        http_thread_end();
    if (!curl)
        curl = curl_easy_init();
    owner = getpid();
    curl_easy_reset(curl);
    char url[8192];
    snprintf(url, sizeof url, "%s%s", i->url, path);
    struct curl_slist *list = request_headers(i, o);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, o->timeout_ms ? o->timeout_ms : 40000L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_bytes);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &headers);
    set_body(curl, method, o);
    CURLcode code = curl_easy_perform(curl);
    double seconds = 0;
    curl_easy_getinfo(curl, CURLINFO_TOTAL_TIME, &seconds);
    if (code == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &a.status);
    curl_slist_free_all(list);
    a.ms = seconds * 1000;
    a.length = body.length;
    buffer_text(&body);
    buffer_text(&headers);
    a.body = body.data;
    a.headers = headers.data;
    a.json = json_loadb(a.body, a.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!o->unchecked && a.status)
        check_declared(method, path, &a);
    return a;
}

json_t *api_as(const struct instance *i, const char *token, long status, const char *method, const char *path,
               json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    struct http_options o = { .token = token, .body = text };
    struct answer a = http_send(i, method, path, &o);
    must(a.status == status, "%s %s: status %ld, expected %ld; sent %.200s; answer: %.600s; log: %s", method,
         path, a.status, status, text ? text : "nothing", a.body ? a.body : "none", i->log_path);
    json_t *result = json_incref(a.json);
    answer_clear(&a);
    json_decref(body);
    free(text);
    return result;
}

json_t *api(const struct instance *i, long status, const char *method, const char *path, json_t *body)
{
    return api_as(i, NULL, status, method, path, body);
}

void api_refused(const struct instance *i, long status, const char *contains, const char *method,
                 const char *path, json_t *body)
{
    json_auto_t *answer = api(i, status, method, path, body);
    char *text = json_dumps(answer, JSON_COMPACT);
    must(strstr(text, contains) != NULL, "%s %s: '%s' is not said in %.400s", method, path, contains, text);
    free(text);
}

json_t *make_json(const char *format, ...)
{
    va_list arguments;
    json_error_t error;
    va_start(arguments, format);
    json_t *value = json_vpack_ex(&error, 0, format, arguments);
    va_end(arguments);
    must(value != NULL, "json_pack: %s", error.text);
    return value;
}

const char *member_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    must(text != NULL, "no text member '%s'", name);
    return text;
}

long long member_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    must(json_is_number(value), "no number member '%s'", name);
    return (long long)json_number_value(value);
}

bool member_flag(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}
