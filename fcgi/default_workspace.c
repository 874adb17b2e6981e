/* Owns which of a principal's workspaces is the one that tools mean. It creates none: whoever asks does. */
#include "fcgi/default_workspace.h"

#include <stdio.h>

#define PAGE 100

static bool is_older(const json_t *a, const json_t *b)
{
    json_int_t one = json_integer_value(json_object_get(a, "created_us"));
    json_int_t other = json_integer_value(json_object_get(b, "created_us"));
    if (one != other)
        return one < other;
    return strcmp(json_string_value(json_object_get(a, "workspace_id")),
                  json_string_value(json_object_get(b, "workspace_id"))) < 0;
}

/* The oldest of that name on this page and before; returns the page's last id in after. */
static void look_at_page(const json_t *page, json_t **best, char after[static ID_SIZE])
{
    const json_t *record;
    size_t index;
    json_array_foreach(page, index, record) {
        const char *name = json_string_value(json_object_get(record, "name"));
        snprintf(after, ID_SIZE, "%s", json_string_value(json_object_get(record, "workspace_id")));
        if (!name || strcmp(name, DEFAULT_WORKSPACE) != 0 || (*best && !is_older(record, *best)))
            continue;
        json_decref(*best);
        *best = json_incref((json_t *)record);
    }
}

int default_workspace_find(struct state *state, const struct principal *principal, char id[static ID_SIZE],
                           struct error *err)
{
    json_auto_t *best = NULL;
    char after[ID_SIZE] = "";
    size_t count;
    if (principal->workspace_id) {
        snprintf(id, ID_SIZE, "%s", principal->workspace_id);
        return 0;
    }
    do {
        json_auto_t *page = NULL;
        if (state_list_workspaces(state, principal->name, after[0] ? after : NULL, PAGE, &page, err) < 0)
            return -1;
        count = json_array_size(page);
        look_at_page(page, &best, after);
    } while (count == PAGE);
    if (best)
        snprintf(id, ID_SIZE, "%s", json_string_value(json_object_get(best, "workspace_id")));
    return best ? 0 : 1;
}

json_t *default_workspace_record(const struct config *config, const struct principal *principal,
                                 struct error *err)
{
    json_auto_t *wish = json_pack("{s:s}", "name", DEFAULT_WORKSPACE), *in = NULL;
    if (field_check(op_find("createRemoteWorkspace")->params, "arguments", NULL, wish, &in, err) < 0)
        return NULL;
    return op_workspace_record(config, principal, in);
}
