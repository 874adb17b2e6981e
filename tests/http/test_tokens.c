/* Further tokens: scopes, one workspace, other principals; no token at all. */
#include "tests/support/suite.h"
#include "tests/support/tokens.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(others_workspaces_are_not_found)
{
    char alice[128], bob[128], ws[40], path[128];
    token_add(the, "alice", alice);
    token_add(the, "bob", bob);
    json_auto_t *created = api_as(the, alice, 200, "POST", "/api/workspaces", json_object());
    snprintf(ws, sizeof ws, "%s", member_text(created, "workspace_id"));
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    json_decref(api_as(the, alice, 200, "GET", path, NULL));
    json_auto_t *hidden = api_as(the, bob, 404, "GET", path, NULL);
    json_auto_t *owners =
        api_as(the, bob, 404, "GET", "/api/workspaces/ws-00000000000000000000000000000000", NULL);
    const char *a = member_text(hidden, "error"), *b = member_text(owners, "error");
    ck_assert_msg(strlen(a) == strlen(b), "an unknown and a foreign id can be told apart: '%s' '%s'", a, b);
    json_decref(api_as(the, bob, 404, "DELETE", path, NULL));
    char exec[160];
    snprintf(exec, sizeof exec, "%s/exec", path);
    json_decref(api_as(the, bob, 404, "POST", exec, make_json("{s:s}", "command", "true")));
    json_auto_t *list = api_as(the, bob, 200, "GET", "/api/workspaces", NULL);
    ck_assert_uint_eq(json_array_size(list), 0);
    json_decref(api_as(the, alice, 200, "DELETE", path, NULL));
}
END_TEST

START_TEST(scopes_and_bound_tokens_hold)
{
    char reader[128], bound[128], ws[40], other[40], arguments[128], path[160];
    workspace_create(the, NULL, ws);
    workspace_create(the, NULL, other);
    token_add(the, "owner --scope read", reader);
    snprintf(arguments, sizeof arguments, "owner --workspace %s", ws);
    token_add(the, arguments, bound);
    json_decref(api_as(the, reader, 403, "POST", "/api/workspaces", json_object()));
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    json_decref(api_as(the, reader, 200, "GET", path, NULL));
    json_decref(api_as(the, bound, 200, "GET", path, NULL));
    snprintf(path, sizeof path, "/api/workspaces/%s", other);
    json_decref(api_as(the, bound, 404, "GET", path, NULL));
    json_auto_t *list = api_as(the, bound, 200, "GET", "/api/workspaces", NULL);
    ck_assert_uint_eq(json_array_size(list), 1);
    json_decref(api_as(the, bound, 403, "POST", "/api/workspaces", json_object()));
    workspace_terminate(the, ws);
    workspace_terminate(the, other);
}
END_TEST

static json_t *call_as(const char *token, const char *tool, json_t *arguments)
{
    json_auto_t *answer =
        api_as(the, token, 200, "POST", "/mcp",
               make_json("{s:s, s:i, s:s, s:{s:s, s:o}}", "jsonrpc", "2.0", "id", 1, "method", "tools/call",
                         "params", "name", tool, "arguments", arguments));
    return json_incref(json_object_get(answer, "result"));
}

static const char *text_of_result(const json_t *result)
{
    return member_text(json_array_get(json_object_get(result, "content"), 0), "text");
}

/* Arguments that pass every tool's own rules. */
static json_t *arguments_of(const json_t *tool)
{
    json_t *arguments = json_object(), *name;
    size_t index;
    const json_t *schema = json_object_get(tool, "inputSchema");
    json_array_foreach(json_object_get(schema, "required"), index, name) {
        const char *member = json_string_value(name);
        const json_t *row = json_object_get(json_object_get(schema, "properties"), member);
        size_t length = strlen(member);
        if (length > 3 && strcmp(member + length - 3, "_id") == 0)
            json_object_set_new(
                arguments, member,
                json_sprintf("%s-00000000000000000000000000000000", strcmp(member, "workspace_id") == 0 ? "ws"
                                                                    : strcmp(member, "exec_id") == 0    ? "ex"
                                                                                                     : "fw"));
        else if (strcmp(member_text(row, "type"), "array") == 0)
            json_object_set_new(arguments, member, make_json("[{s:s, s:s}]", "old", "a", "new", "b"));
        else
            json_object_set_new(arguments, member,
                                strcmp(member_text(row, "type"), "string") == 0 ? json_string("x")
                                                                                : json_integer(70));
    }
    return arguments;
}

/* Whatever a token that may only look calls: nothing is made, by no tool, and where there is no `default` it
 * is told why. */
START_TEST(who_may_only_look_makes_nothing)
{
    char reader[128], writer[128];
    token_add(the, "rita --scope read", reader);
    token_add(the, "rita", writer);
    json_auto_t *answer =
        api_as(the, reader, 200, "POST", "/mcp",
               make_json("{s:s, s:i, s:s}", "jsonrpc", "2.0", "id", 1, "method", "tools/list"));
    const json_t *tools = json_object_get(json_object_get(answer, "result"), "tools"), *tool;
    size_t index, refused = 0, none = 0;
    json_array_foreach(tools, index, tool) {
        const char *name = member_text(tool, "name");
        bool looks = member_flag(json_object_get(tool, "annotations"), "readOnlyHint");
        json_auto_t *result = call_as(reader, name, arguments_of(tool));
        const char *text = json_is_true(json_object_get(result, "isError")) ? text_of_result(result) : "";
        if (!looks)
            ck_assert_msg(strstr(text, "needs a token with the scope write"), "%s: %s", name, text);
        refused += !looks;
        none += strstr(text, "no workspace named default") != NULL;
    }
    ck_assert_msg(refused >= 10 && none >= 4, "%zu refused, %zu without a default", refused, none);
    json_auto_t *list = api_as(the, writer, 200, "GET", "/api/workspaces?state=all", NULL);
    ck_assert_uint_eq(json_array_size(list), 0);
    json_auto_t *written =
        call_as(writer, "write_file", make_json("{s:s, s:s}", "filepath", "a", "content", "x"));
    ck_assert_msg(!member_flag(written, "isError"), "%s", text_of_result(written));
    json_auto_t *got = call_as(reader, "read_file", make_json("{s:s}", "filepath", "a"));
    ck_assert_str_eq(text_of_result(got), "x");
    json_auto_t *now = api_as(the, writer, 200, "GET", "/api/workspaces?state=all", NULL);
    ck_assert_uint_eq(json_array_size(now), 1);
    char path[128];
    snprintf(path, sizeof path, "/api/workspaces/%s", member_text(json_array_get(now, 0), "workspace_id"));
    json_decref(api_as(the, writer, 200, "DELETE", path, NULL));
}
END_TEST

START_TEST(a_revoked_token_is_refused)
{
    char carol[128], line[256], id[64];
    token_add(the, "carol", carol);
    json_decref(api_as(the, carol, 200, "GET", "/api/workspaces", NULL));
    const char *list = token_command(the, "list");
    ck_assert_msg(strstr(list, carol) == NULL, "the list shows a token");
    const char *at = strstr(list, "carol");
    ck_assert_ptr_nonnull(at);
    while (at > list && at[-1] != '\n')
        at--;
    ck_assert_int_eq(sscanf(at, "%63s", id), 1);
    snprintf(line, sizeof line, "revoke %s", id);
    token_command(the, line);
    json_decref(api_as(the, carol, 401, "GET", "/api/workspaces", NULL));
}
END_TEST

/* Secrets must not stand in the store's files or the log. */
START_TEST(tokens_and_values_are_nowhere_in_clear)
{
    char dave[128], ws[40], line[512];
    struct exec_log log;
    token_add(the, "dave", dave);
    workspace_create(the, NULL, ws);
    exec_run(
        the, ws,
        make_json("{s:s, s:{s:s}}", "command", "echo out-put-marker", "env", "SECRET", "env-value-marker"),
        &log);
    exec_log_clear(&log);
    for (const char *const *secret =
             (const char *const[]){ dave, instance_token(the), "env-value-marker", "out-put-marker", NULL };
         *secret; secret++) {
        snprintf(line, sizeof line, "grep -c -F -e '%s' %s/../test.log", *secret, instance_state(the));
        FILE *pipe = popen(line, "r");
        int count = -1;
        ck_assert_int_eq(fscanf(pipe, "%d", &count), 1);
        pclose(pipe);
        /* the token of `run` is printed once, for the person who started it */
        ck_assert_msg(count <= (*secret == instance_token(the) ? 5 : 0),
                      "'%.8s...' stands %d times in the log", *secret, count);
    }
    snprintf(line, sizeof line, "grep -r -l -F -e '%s' %s/state", dave, instance_state(the));
    FILE *pipe = popen(line, "r");
    char found[300] = "";
    ck_assert_msg(fgets(found, sizeof found, pipe) == NULL, "a token stands in clear in %s", found);
    pclose(pipe);
    workspace_terminate(the, ws);
}
END_TEST

/* A clone under /root: the workers' user may not enter the folder above the state directory. */
START_TEST(commands_reach_a_state_directory_below_a_closed_folder)
{
    char folder[] = "/tmp/wsf-closed-XXXXXX", line[600], output[1000] = "";
    if (geteuid() != 0)
        return;
    ck_assert_ptr_nonnull(mkdtemp(folder)); /* mode 0700 */
    snprintf(line, sizeof line,
             "w=%s; s='--state %s/state'; $w token add eve $s && $w token list $s && $w call "
             "listRemoteWorkspaces $s",
             build_path("workspace-fcgi"), folder);
    FILE *pipe = popen(line, "r");
    size_t length = fread(output, 1, sizeof output - 1, pipe);
    int status = pclose(pipe);
    output[length] = '\0';
    ck_assert_msg(status == 0 && strstr(output, "eve") && strstr(output, "[]"), "%d %s", status, output);
    snprintf(line, sizeof line, "%s/state/run/warden.lock", folder); /* `call` started a warden: end it */
    for (int k = 0; k < 100 && access(line, F_OK) != 0; k++)
        sleep_ms(20);
    snprintf(line, sizeof line, "pkill -TERM -f -- '[w]orkspace-fcgi warden.*%s/state'; sleep 0.3; rm -rf %s",
             folder, folder);
    ck_assert_int_eq(system(line), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tokens");
    suite_add(s, others_workspaces_are_not_found, 60);
    suite_add(s, scopes_and_bound_tokens_hold, 60);
    suite_add(s, who_may_only_look_makes_nothing, 60);
    suite_add(s, a_revoked_token_is_refused, 60);
    suite_add(s, tokens_and_values_are_nowhere_in_clear, 60);
    suite_add(s, commands_reach_a_state_directory_below_a_closed_folder, 30);
    return suite_main(s, NULL);
}
