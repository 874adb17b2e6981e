/* Finds operations, runs their keeper halves, digests calls. Knows the table, no operation. */
#include "lib/op/op.h"

const struct op *op_find(const char *id)
{
    for (const struct op *const *op = ops; *op; op++)
        if (!strcmp((*op)->id, id))
            return *op;
    return NULL;
}

const struct op *op_find_tool(const char *tool)
{
    for (const struct op *const *op = ops; *op; op++)
        if ((*op)->tool && !strcmp((*op)->tool, tool))
            return *op;
    return NULL;
}

bool op_path_has(const struct op *op, const char *name)
{
    _cleanup_free_ char *braced = xasprintf("{%s}", name);

    return strstr(op->path, braced) != NULL;
}

const char op_raw_way[] =
    "bytes of files go over HTTP alone: curl -H 'Authorization: Bearer TOKEN' "
    "'URL/api/workspaces/WORKSPACE_ID/raw?path=FILE' -o FILE, or with -T FILE to write it";

/* A worker that is one version newer may know members that this program does not. */
static json_t *declared_members(const struct field *rows, const json_t *in)
{
    json_t *known = json_object(), *value;
    const char *name;

    json_object_foreach((json_t *)in, name, value)
        if (field_find(rows, name))
            json_object_set(known, name, value);
    return known;
}

int op_keep(struct keeper_call *call, const char *operation, const json_t *in, json_t **ret,
            struct error *err)
{
    const struct op *op = op_find(operation);

    if (!op)
        return error_set(err, ERROR_INTERNAL, "the keeper does not know this operation");
    if (op->action == OP_ACTION_TERMINATE || op->action == OP_ACTION_STOP)
        return keeper_stop(call, op->action == OP_ACTION_TERMINATE, err);
    if (!op->keep)
        return error_set(err, ERROR_INTERNAL, "this operation has no half in the keeper");
    json_auto_t *known = declared_members(op->params, in);
    json_auto_t *checked = NULL;
    if (field_check(op->params, "body", NULL, known, &checked, err) < 0)
        return -1;
    if (op->flags & OP_DEFAULT_WORKSPACE && !json_is_string(json_object_get(checked, "workspace_id")))
        return error_set(err, ERROR_VALIDATION, "workspace_id: is missing"); /* the worker has chosen one */
    return op->keep(call, checked, ret, err);
}

void op_digest(const struct op *op, const json_t *in, char hex[static ID_HASH_SIZE])
{
    json_auto_t *whole = json_pack("{s:s, s:O}", "in", op->id, "with", in);
    char *text = json_dumps(whole, JSON_COMPACT | JSON_SORT_KEYS);

    id_hash(text, strlen(text), hex);
    free(text);
}

void call_clear(struct call *call)
{
    json_decref(call->in);
    json_decref(call->workspace);
    json_decref(call->kept);
    json_decref(call->result);
    buffer_free(&call->body);
    buffer_free(&call->blocks);
    free(call->memo);
    if (call->work)
        call->work->release(call->work);
    memset(call, 0, sizeof *call);
}
