/* The revisions of MCP and how a request is told to speak one. Nothing is remembered between requests. It
 * knows no tool. */
#include "fcgi/mcp/eras.h"

#include "lib/base/utf8.h"

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"

static const char *const names[ERA_COUNT] = {
    [ERA_2024_11_05] = "2024-11-05", [ERA_2025_03_26] = "2025-03-26", [ERA_2025_06_18] = "2025-06-18",
    [ERA_2025_11_25] = "2025-11-25", [ERA_2026_07_28] = "2026-07-28",
};

/* Which parameter the Mcp-Name header repeats. */
static const struct named_method {
    const char *method, *parameter;
} named_methods[] = {
    { "tools/call", "name" },  { "prompts/get", "name" },    { "resources/read", "uri" },
    { "tasks/get", "taskId" }, { "tasks/update", "taskId" }, { "tasks/cancel", "taskId" },
};

const char *era_name(enum era era)
{
    return names[era];
}

bool era_find(const char *name, enum era *ret)
{
    for (size_t i = 0; i < ERA_COUNT; i++) {
        if (strcmp(names[i], name) != 0)
            continue;
        *ret = (enum era)i;
        return true;
    }
    return false;
}

json_t *era_names(void)
{
    json_t *array = json_array();
    for (size_t i = ERA_COUNT; i-- > 0;)
        json_array_append_new(array, json_string(names[i]));
    return array;
}

bool era_takes_batches(const struct request *r)
{
    const char *header = request_header(r, "mcp-protocol-version");
    enum era era = ERA_ASSUMED;
    return !header || (era_find(header, &era) && era <= ERA_2025_03_26);
}

/* ---- headers ---- */

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Strict: whole groups, padding at the end only, no stray bits (RFC 4648, 3.5). Returns the decoded length or
 * -1. */
static long decode_base64(const char *text, size_t length, char *out)
{
    size_t padding = 0, used = 0;
    if (length % 4 != 0)
        return -1;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < length; i += 4) {
        unsigned value = 0;
        size_t digits = i + 4 == length ? 4 - padding : 4;
        for (size_t j = 0; j < 4; j++) {
            int digit = j < digits ? base64_digit(text[i + j]) : 0;
            if (digit < 0)
                return -1;
            value = value << 6 | (unsigned)digit;
        }
        if (value & ((1u << (4 - digits) * 8) - 1))
            return -1;
        for (size_t j = 0; j + 1 < digits; j++)
            out[used++] = (char)(value >> (16 - 8 * j));
    }
    return (long)used;
}

int era_decode_header(const char *value, char **ret)
{
    static const char prefix[] = "=?base64?", suffix[] = "?=";
    size_t length = strlen(value), before = sizeof(prefix) - 1, after = sizeof(suffix) - 1;
    while (length > 0 && strchr(" \t", value[length - 1]))
        length--;
    while (length > 0 && strchr(" \t", *value)) {
        value++;
        length--;
    }
    if (length < before + after || memcmp(value, prefix, before) != 0 ||
        memcmp(value + length - after, suffix, after) != 0) {
        *ret = xstrndup(value, length);
        return 0;
    }
    length -= before + after;
    _cleanup_free_ char *decoded = xmalloc(length + 1);
    long used = decode_base64(value + before, length, decoded);
    if (used < 0 || !utf8_is_valid(decoded, (size_t)used) || memchr(decoded, '\0', (size_t)used))
        return -1;
    decoded[used] = '\0';
    *ret = STEAL(decoded);
    return 0;
}

static int mismatch(struct rpc_error *err, const char *header, const char *problem)
{
    return rpc_error_set(err, 400, RPC_HEADER_MISMATCH, "Header mismatch: %s %s", header, problem);
}

static int check_method(const struct request *r, const struct rpc_message *m, struct rpc_error *err)
{
    const char *header = request_header(r, "mcp-method");
    if (!header)
        return mismatch(err, "Mcp-Method", "is missing");
    if (strcmp(header, m->method) != 0)
        return mismatch(err, "Mcp-Method", "is not the method of the body");
    return 0;
}

static int check_name(const struct request *r, const struct rpc_message *m, struct rpc_error *err)
{
    const char *expected = NULL;
    for (size_t i = 0; i < N_ELEMENTS(named_methods); i++) {
        if (strcmp(named_methods[i].method, m->method) == 0)
            expected = json_string_value(json_object_get(m->params, named_methods[i].parameter));
    }
    if (!expected)
        return 0;
    const char *header = request_header(r, "mcp-name");
    if (!header)
        return mismatch(err, "Mcp-Name", "is missing");
    _cleanup_free_ char *decoded = NULL;
    if (era_decode_header(header, &decoded) < 0)
        return mismatch(err, "Mcp-Name", "is not well formed");
    if (strcmp(decoded, expected) != 0)
        return mismatch(err, "Mcp-Name", "is not the name in the body");
    return 0;
}

/* ---- eras ---- */

static int unsupported(struct rpc_error *err, const char *requested)
{
    rpc_error_set(err, 400, RPC_UNSUPPORTED_VERSION, "Unsupported protocol version");
    err->data = json_pack("{s:o, s:s}", "supported", era_names(), "requested", requested);
    return -1;
}

/* In this order: what is missing, what contradicts, what is unknown, what the headers repeat. */
static int check_modern(const struct request *r, const struct rpc_message *m, const char *header,
                        enum era *ret, struct rpc_error *err)
{
    const json_t *meta = json_object_get(m->params, "_meta");
    const char *version = json_string_value(json_object_get(meta, META_VERSION));
    if (!version && header && !era_find(header, ret))
        return unsupported(err, header);
    if (!version)
        return rpc_error_set(err, 400, RPC_INVALID_PARAMS, "Invalid params: _meta must have %s",
                             META_VERSION);
    if (!json_is_object(json_object_get(meta, META_CAPABILITIES)))
        return rpc_error_set(err, 400, RPC_INVALID_PARAMS, "Invalid params: _meta must have %s",
                             META_CAPABILITIES);
    if (!header)
        return mismatch(err, "MCP-Protocol-Version", "is missing");
    if (strcmp(header, version) != 0)
        return mismatch(err, "MCP-Protocol-Version", "is not the version in _meta");
    if (!era_find(version, ret) || !era_is_modern(*ret))
        return unsupported(err, version);
    if (check_method(r, m, err) < 0)
        return -1;
    return check_name(r, m, err);
}

int era_select(const struct request *r, const struct rpc_message *m, enum era *ret, struct rpc_error *err)
{
    const char *header = request_header(r, "mcp-protocol-version");
    const json_t *meta = json_object_get(m->params, "_meta");
    enum era era = ERA_ASSUMED;
    bool known = header && era_find(header, &era);
    bool modern = json_object_get(meta, META_VERSION) || (header && (!known || era_is_modern(era)));
    *ret = era;
    return modern ? check_modern(r, m, header, ret, err) : 0;
}
