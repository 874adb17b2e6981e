/* Owns the server's name, capabilities and instructions. It knows no tool but by its name. */
#include "fcgi/mcp/hello.h"

#include "lib/base/version.h"

#define INSTRUCTIONS                                                                                         \
    "Sandboxed Linux workspaces that last. read_file, write_file, search_and_replace, list_directory, "      \
    "search_workspace, grep_workspace and run_bash need no workspace_id: without one they work in your "     \
    "workspace named default, which is made on first use. For a task with a workspace of its own call "      \
    "workspace_create (workspace_list tells those that there are) and give its workspace_id everywhere. "    \
    "Paths are relative to /workspace. Start builds, "                                                       \
    "installs and anything long with workspace_realtime_exec_start, and read its output with "               \
    "workspace_realtime_exec_events, giving each "                                                           \
    "answer's next_cursor back as cursor until an event of type exit comes; workspace_exec is for very "     \
    "short commands. Files below "                                                                           \
    "/workspace stay when a workspace stops. Never print secret values."

/* Who asked for sets that are empty would look for the fault elsewhere. Those of the settings were not asked
 * for. */
char *hello_instructions(struct mcp_tools *tools, const char *prefix, const char *sets)
{
    _cleanup_buffer_ struct buffer empty = BUFFER_INIT, filled = BUFFER_INIT;
    mcp_tools_part_sets(tools, sets, &empty, &filled);
    const struct buffer *list = mcp_tools_list(tools, sets);
    bool none = list && list->length == strlen("[]");
    if (none)
        return xasprintf(
            "No tools are listed here: this version has none of %s yet. Connect to %s/mcp/%s instead, or "
            "to one of these sets.",
            buffer_text(&empty), prefix, buffer_text(&filled));
    if (empty.length > 0 && *sets)
        return xasprintf("This version has no tools of %s yet. %s", buffer_text(&empty), INSTRUCTIONS);
    return xstrdup(INSTRUCTIONS);
}

void hello_append_initialize(struct buffer *out, const struct rpc_message *m, const char *instructions)
{
    const char *asked = json_string_value(json_object_get(m->params, "protocolVersion"));
    enum era era = ERA_LEGACY_NEWEST;
    if (!asked || !era_find(asked, &era) || era_is_modern(era))
        era = ERA_LEGACY_NEWEST;
    json_auto_t *result =
        json_pack("{s:s, s:{s:{}, s:{}}, s:{s:s, s:s}, s:s}", "protocolVersion", era_name(era),
                  "capabilities", "tools", "logging", "serverInfo", "name", WORKSPACE_NAME, "version",
                  WORKSPACE_VERSION, "instructions", instructions);
    rpc_append_value(out, result);
}

void hello_append_discover(struct buffer *out, enum era era, const char *instructions)
{
    json_auto_t *versions = era_names();
    buffer_append_char(out, '{');
    mcp_append_result_head(out, era);
    buffer_append_text(out, "\"supportedVersions\":");
    rpc_append_value(out, versions);
    buffer_printf(out,
                  ",\"capabilities\":{\"tools\":{},\"logging\":{}},\"ttlMs\":%d,\"cacheScope\":\"public\","
                  "\"instructions\":\"",
                  MCP_TTL_MS);
    buffer_append_json(out, instructions, strlen(instructions));
    buffer_append_text(out, "\"}");
}
