/* Fuzzes request_parse, the splitting of the path and the query. The first byte chooses the mount. */
#include "fcgi/request.h"

#include <stdint.h>

static int take(void *user, const char *name, const char *value, size_t length, struct error *err)
{
    (void)err;
    if (strlen(value) != length)
        abort();
    *(size_t *)user += strlen(name) + length;
    return 0;
}

static void use_path(const struct request *r)
{
    _cleanup_free_ char **parts = NULL;
    size_t count = 0, total = 0;

    if (request_split_path(r->path, &parts, &count, NULL) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        total += strlen(parts[i]);
    if (parts[count] != NULL || total > strlen(r->path))
        abort();
}

static void check(const struct request *r)
{
    size_t total = 0;

    if (r->path[0] != '/' || strlen(r->method) > 16 || strlen(r->id) == 0 || strpbrk(r->id, "\r\n") != NULL)
        abort();
    for (size_t i = 0; i < r->header_count; i++)
        total += strlen(r->headers[i].name) + strlen(r->headers[i].value);
    request_header(r, "accept");
    use_path(r);
    request_each_query(r->query, take, &total, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct request r;

    if (size == 0)
        return 0;
    if (request_parse((const char *)data + 1, size - 1, data[0] & 1 ? "/workspace" : "", &r, NULL) == 0)
        check(&r);
    request_clear(&r);
    return 0;
}
