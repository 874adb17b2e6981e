/* Owns which of a principal's workspaces is the one that tools mean. It creates none: whoever asks does. */
#include "fcgi/default_workspace.h"

#include <stdio.h>

int default_workspace_find(struct state *state, const struct principal *principal, char id[static ID_SIZE],
                           struct error *err)
{
    if (principal->workspace_id) {
        snprintf(id, ID_SIZE, "%s", principal->workspace_id);
        return 0;
    }
    int found = state_find_named(state, principal->name, DEFAULT_WORKSPACE, id, err);
    return found < 0 ? -1 : found == 0;
}

json_t *default_workspace_record(const struct config *config, const struct principal *principal,
                                 struct error *err)
{
    json_auto_t *wish = json_pack("{s:s}", "name", DEFAULT_WORKSPACE), *in = NULL;
    if (field_check(op_find("createRemoteWorkspace")->params, "arguments", NULL, wish, &in, err) < 0)
        return NULL;
    return op_workspace_record(config, principal, in);
}
