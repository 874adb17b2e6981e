/* FastCGI parameters -> struct request, its path and its query. Pure: every byte is hostile, every length is
 * checked before it is used; nothing here knows a socket, a route or an operation. */
#include "fcgi/request.h"

#include "lib/base/ids.h"
#include "lib/base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <strings.h>

enum { LONGEST_METHOD = 16, LONGEST_URI = 16384, MOST_HEADERS = 200, MOST_SEGMENTS = 64 };

struct pair {
    const char *name, *value;
    size_t name_length, value_length;
};

/* ---- name-value pairs, FastCGI 1.0, 3.4 ---- */

static int next_length(const unsigned char **at, const unsigned char *end, size_t *ret)
{
    if (*at == end)
        return -1;
    if (!(**at & 0x80)) {
        *ret = *(*at)++;
        return 0;
    }
    if (end - *at < 4)
        return -1;
    *ret = ((size_t)((*at)[0] & 0x7f) << 24) | ((size_t)(*at)[1] << 16) | ((size_t)(*at)[2] << 8) | (*at)[3];
    *at += 4;
    return 0;
}

static int next_pair(const unsigned char **at, const unsigned char *end, struct pair *ret)
{
    if (next_length(at, end, &ret->name_length) < 0 || next_length(at, end, &ret->value_length) < 0)
        return -1;
    size_t left = (size_t)(end - *at);
    if (ret->name_length > left || ret->value_length > left - ret->name_length)
        return -1;
    ret->name = (const char *)*at;
    ret->value = ret->name + ret->name_length;
    *at += ret->name_length + ret->value_length;
    return memchr(ret->name, 0, ret->name_length + ret->value_length) ? -1 : 0;
}

static void add_length(struct buffer *params, size_t length)
{
    if (length > 127) {
        buffer_append_char(params, (char)(0x80 | (length >> 24)));
        buffer_append_char(params, (char)(length >> 16));
        buffer_append_char(params, (char)(length >> 8));
    }
    buffer_append_char(params, (char)length);
}

void request_add_param(struct buffer *params, const char *name, const char *value)
{
    add_length(params, strlen(name));
    add_length(params, strlen(value));
    buffer_append_text(params, name);
    buffer_append_text(params, value);
}

/* ---- members ---- */

/* One pass measures, one copies: all strings lie in one block. */
struct filling {
    struct request *request;
    char *at;
    char *uri, *https, *scheme, *length;
};

static char *store(struct filling *f, const char *text, size_t length)
{
    char *copy = f->at;

    memcpy(copy, text, length);
    copy[length] = 0;
    f->at += length + 1;
    return copy;
}

/* Which parameter goes where. Of doubled parameters the first counts, as in every FastCGI library. */
static const struct {
    const char *name;
    bool in_filling;
    size_t offset;
} places[] = {
    { "REQUEST_METHOD", false, offsetof(struct request, method) },
    { "REQUEST_URI", true, offsetof(struct filling, uri) },
    { "CONTENT_TYPE", false, offsetof(struct request, content_type) },
    { "CONTENT_LENGTH", true, offsetof(struct filling, length) },
    { "HTTP_AUTHORIZATION", false, offsetof(struct request, authorization) },
    { "REDIRECT_HTTP_AUTHORIZATION", false, offsetof(struct request, authorization) },
    { "HTTP_HOST", false, offsetof(struct request, host) },
    { "REMOTE_ADDR", false, offsetof(struct request, peer) },
    { "HTTPS", true, offsetof(struct filling, https) },
    { "REQUEST_SCHEME", true, offsetof(struct filling, scheme) },
};

static bool store_member(struct filling *f, const struct pair *pair)
{
    for (size_t i = 0; i < N_ELEMENTS(places); i++) {
        if (strlen(places[i].name) != pair->name_length ||
            memcmp(places[i].name, pair->name, pair->name_length) != 0)
            continue;
        char **place = (char **)((places[i].in_filling ? (char *)f : (char *)f->request) + places[i].offset);
        if (*place == NULL)
            *place = store(f, pair->value, pair->value_length);
        return true;
    }
    return false;
}

/* HTTP_MCP_PROTOCOL_VERSION -> mcp-protocol-version */
static void store_header(struct filling *f, const struct pair *pair)
{
    struct request *r = f->request;
    struct request_pair *header = &r->headers[r->header_count++];

    header->name = store(f, pair->name + 5, pair->name_length - 5);
    header->value = store(f, pair->value, pair->value_length);
    for (char *c = header->name; *c; c++)
        *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
}

static bool is_header(const struct pair *pair)
{
    return pair->name_length > 5 && memcmp(pair->name, "HTTP_", 5) == 0;
}

static int measure(const char *params, size_t length, size_t *ret_size, size_t *ret_headers,
                   struct error *err)
{
    const unsigned char *at = (const unsigned char *)params, *end = at + length;
    struct pair pair;

    *ret_size = 16; /* the defaults: "", "/" */
    *ret_headers = 0;
    while (at < end) {
        if (next_pair(&at, end, &pair) < 0)
            return error_set(err, ERROR_INVALID, "the request's FastCGI parameters are damaged");
        /* A header may be stored twice: as itself and as a member. */
        *ret_size += 2 * (pair.name_length + pair.value_length + 2);
        *ret_headers += is_header(&pair);
    }
    if (*ret_headers > MOST_HEADERS)
        return error_set(err, ERROR_INVALID, "more than %d header lines", MOST_HEADERS);
    return 0;
}

static void fill(struct filling *f, const char *params, size_t length)
{
    const unsigned char *at = (const unsigned char *)params, *end = at + length;
    struct pair pair;

    while (at < end && next_pair(&at, end, &pair) == 0) {
        store_member(f, &pair);
        if (is_header(&pair))
            store_header(f, &pair);
    }
    struct request *r = f->request;
    if (r->content_type == NULL)
        r->content_type = store(f, "", 0);
    if (r->method == NULL)
        r->method = store(f, "", 0);
    r->path = store(f, "/", 1);
    r->query = store(f, "", 0);
}

/* ---- what must hold ---- */

static int check_method(struct request *r, struct error *err)
{
    size_t length = strlen(r->method);

    if (length == 0 || length > LONGEST_METHOD)
        return error_set(err, ERROR_INVALID, "the request's method must have 1 to %d letters",
                         LONGEST_METHOD);
    for (char *c = r->method; *c; c++) {
        if (!isalpha((unsigned char)*c) && *c != '-')
            return error_set(err, ERROR_INVALID, "the request's method must have letters only");
        *c = (char)toupper((unsigned char)*c);
    }
    return 0;
}

static int check_length(struct request *r, const char *text, struct error *err)
{
    char *end;

    r->content_length = -1;
    if (text == NULL || *text == 0)
        return 0;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end)
        return error_set(err, ERROR_INVALID, "Content-Length must be a number");
    r->content_length = errno == ERANGE ? INT64_MAX : value;
    return 0;
}

static void choose_id(struct request *r)
{
    const char *given = request_header(r, "x-request-id");
    size_t length =
        given ? strspn(given, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") : 0;

    if (length == 0 || length > 64 || given[length]) {
        id_random_hex(r->id, 32);
        return;
    }
    length = length > 32 ? 32 : length;
    memcpy(r->id, given, length);
    r->id[length] = 0;
}

/* "http://host/path" (absolute form) -> "/path"; NULL where no path begins. */
static char *path_of_uri(char *uri)
{
    if (strncasecmp(uri, "http://", 7) == 0 || strncasecmp(uri, "https://", 8) == 0)
        return strchr(strstr(uri, "://") + 3, '/');
    return *uri == '/' ? uri : NULL;
}

static int split_uri(struct request *r, char *uri, const char *mount, struct error *err)
{
    if (uri == NULL || strlen(uri) > LONGEST_URI)
        return error_set(err, ERROR_INVALID, "the request's URI is missing or longer than %d bytes",
                         LONGEST_URI);
    for (const char *c = uri; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f || *c == '#')
            return error_set(err, ERROR_INVALID,
                             "the request's URI has a space, a control character or a fragment");
    char *path = path_of_uri(uri);
    if (path == NULL)
        return error_set(err, ERROR_INVALID, "the request's URI must begin with \"/\"");
    char *query = strchr(path, '?');
    if (query != NULL) {
        *query = 0;
        r->query = query + 1;
    }
    size_t prefix = strlen(mount);
    if (strncmp(path, mount, prefix) != 0 || (prefix > 0 && path[prefix] != 0 && path[prefix] != '/'))
        return error_set(err, ERROR_NOT_FOUND, "nothing is served here");
    if (path[prefix] != 0)
        r->path = path + prefix;
    return 0;
}

static bool is_https(const struct filling *f)
{
    if (f->https != NULL && *f->https)
        return strcasecmp(f->https, "off") != 0 && strcmp(f->https, "0") != 0;
    return f->scheme != NULL && strcasecmp(f->scheme, "https") == 0;
}

int request_parse(const char *params, size_t length, const char *mount, struct request *ret,
                  struct error *err)
{
    size_t size, headers;

    *ret = (struct request){ .body = BUFFER_INIT, .content_length = -1 };
    if (length == 0)
        params = ""; /* an empty buffer has no data at all */
    if (measure(params, length, &size, &headers, err) < 0) {
        id_random_hex(ret->id, 32);
        return -1;
    }
    ret->storage = xmalloc(size + headers * sizeof(struct request_pair));
    /* The array first, for its alignment. */
    ret->headers = (struct request_pair *)ret->storage;
    struct filling f = { .request = ret, .at = ret->storage + headers * sizeof(struct request_pair) };
    fill(&f, params, length);
    choose_id(ret);
    ret->https = is_https(&f);
    if (check_method(ret, err) < 0 || check_length(ret, f.length, err) < 0)
        return -1;
    return split_uri(ret, f.uri, mount, err);
}

void request_clear(struct request *r)
{
    char id[sizeof(r->id)];

    memcpy(id, r->id, sizeof(id));
    free(r->storage);
    buffer_free(&r->body);
    *r = (struct request){ .body = BUFFER_INIT, .content_length = -1 };
    memcpy(r->id, id, sizeof(id));
}

const char *request_header(const struct request *r, const char *name)
{
    for (size_t i = 0; i < r->header_count; i++)
        if (strcmp(r->headers[i].name, name) == 0)
            return r->headers[i].value;
    return NULL;
}

/* ---- percent-encoding, RFC 3986, 2.1 ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes length bytes to `to` (which may be where they lie); returns the new length, -1 on a bad escape. */
static ssize_t percent_decode(const char *from, size_t length, bool plus_is_space, char *to)
{
    char *start = to;

    for (size_t i = 0; i < length; i++) {
        if (from[i] != '%') {
            *to++ = plus_is_space && from[i] == '+' ? ' ' : from[i];
            continue;
        }
        int high = i + 2 < length ? hex_digit(from[i + 1]) : -1;
        int low = i + 2 < length ? hex_digit(from[i + 2]) : -1;
        if (high < 0 || low < 0)
            return -1;
        *to++ = (char)(high << 4 | low);
        i += 2;
    }
    return to - start;
}

static int decode_segment(const char *from, size_t length, char *to, size_t *ret, struct error *err)
{
    ssize_t decoded = percent_decode(from, length, false, to);

    if (decoded < 0)
        return error_set(err, ERROR_INVALID, "the path has a bad percent escape");
    to[decoded] = 0;
    if (memchr(to, 0, (size_t)decoded) != NULL || !utf8_is_valid(to, (size_t)decoded))
        return error_set(err, ERROR_INVALID, "the path has a NUL or is not UTF-8");
    if (strcmp(to, ".") == 0 || strcmp(to, "..") == 0)
        return error_set(err, ERROR_INVALID, "the path has a \".\" or \"..\" part");
    *ret = (size_t)decoded;
    return 0;
}

int request_split_path(const char *path, char ***ret, size_t *ret_count, struct error *err)
{
    size_t count = 0;

    if (*path == '/')
        path++;
    for (const char *c = path; *c; c++)
        count += *c == '/';
    if (++count > MOST_SEGMENTS)
        return error_set(err, ERROR_INVALID, "the path has more than %d parts", MOST_SEGMENTS);

    _cleanup_free_ char **parts = xmalloc((count + 1) * sizeof(char *) + strlen(path) + count);
    char *at = (char *)(parts + count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(path, "/"), decoded = 0;
        if (decode_segment(path, length, at, &decoded, err) < 0)
            return -1;
        parts[i] = at;
        at += decoded + 1;
        path += length + 1;
    }
    parts[count] = NULL;
    *ret = STEAL(parts);
    *ret_count = count;
    return 0;
}

static int take_parameter(const char *at, size_t length, char *scratch, request_take *take, void *user,
                          struct error *err)
{
    const char *equals = memchr(at, '=', length);
    size_t name_length = equals ? (size_t)(equals - at) : length;
    ssize_t name_decoded = percent_decode(at, name_length, true, scratch);
    char *value = scratch + name_length + 1;
    ssize_t value_decoded = equals ? percent_decode(equals + 1, length - name_length - 1, true, value) : 0;

    if (name_decoded < 0 || value_decoded < 0)
        return error_set(err, ERROR_INVALID, "the query has a bad percent escape");
    scratch[name_decoded] = 0;
    value[value_decoded] = 0;
    if (memchr(scratch, 0, (size_t)name_decoded) || memchr(value, 0, (size_t)value_decoded) ||
        !utf8_is_valid(scratch, (size_t)name_decoded) || !utf8_is_valid(value, (size_t)value_decoded))
        return error_set(err, ERROR_INVALID, "the query has a NUL or is not UTF-8");
    return take(user, scratch, value, (size_t)value_decoded, err);
}

int request_each_query(const char *query, request_take *take, void *user, struct error *err)
{
    _cleanup_free_ char *scratch = xmalloc(strlen(query) + 2);

    while (*query) {
        size_t length = strcspn(query, "&");
        if (length > 0 && take_parameter(query, length, scratch, take, user, err) < 0)
            return -1;
        query += length + (query[length] == '&');
    }
    return 0;
}
