/* The command for tokens: what it stores, shows and refuses. */
#include "fcgi/cmd_token.h"
#include "lib/base/buffer.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/store/state.h"
#include "tests/support/config_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Runs cmd_token with its output in a file. */
static int run_token(struct buffer *out, const char *const *arguments)
{
    char *argv[10] = { (char *)"token" };
    int argc = 1;
    for (; arguments[argc - 1]; argc++)
        argv[argc] = (char *)arguments[argc - 1];
    _cleanup_free_ char *path = xasprintf("%s/out", scratch);
    fflush(stdout);
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct config *config = config_for("state", "");
        if (!freopen(path, "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(99);
        _exit(cmd_token(config, argc, argv));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    buffer_free(out);
    ck_assert_int_eq(io_read_file(AT_FDCWD, path, 1 << 20, out, &config_error), 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A state directory of root's that is not empty is refused. */
static void give_scratch(void)
{
    const struct passwd *user = getpwnam("www-data");
    if (geteuid() == 0)
        ck_assert_int_eq(chown(scratch, user->pw_uid, user->pw_gid), 0);
}

static void make_workspace(const char *id, const char *owner)
{
    _cleanup_free_ char *directory = xasprintf("%s/state", scratch);
    ck_assert_int_eq(io_ensure_directory(directory, 0777, &config_error), 0);
    struct state *state = state_open(directory, &config_error);
    ck_assert_msg(state != NULL, "%s", config_error.message);
    json_auto_t *record =
        json_pack("{s:i, s:s, s:s, s:s}", "v", 1, "workspace_id", id, "owner", owner, "state", "stopped");
    ck_assert_msg(state_create_workspace(state, record, NULL, 10, 0, 0, NULL, &config_error) >= 0, "%s",
                  config_error.message);
    state_close(state);
}

START_TEST(a_token_for_no_workspace_of_its_principal_is_refused)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    const char *ws = "ws-0123456789abcdef0123456789abcdef";
    give_scratch();
    make_workspace(ws, "alice");
    ck_assert_int_eq(run_token(&out, (const char *const[]){ "add", "bob", "--workspace", ws, NULL }), 1);
    ws = "ws-00000000000000000000000000000000";
    ck_assert_int_eq(run_token(&out, (const char *const[]){ "add", "alice", "--workspace", ws, NULL }), 1);
    ck_assert_int_eq(run_token(&out, (const char *const[]){ "list", NULL }), 0);
    ck_assert_uint_eq(out.length, 0);
}
END_TEST

START_TEST(tokens_are_listed_in_order_and_columns)
{
    static const char *const names[] = { "zoe", "a-rather-long-name", "bob" };
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    give_scratch();
    for (size_t i = 0; i < N_ELEMENTS(names); i++)
        ck_assert_int_eq(run_token(&out, (const char *const[]){ "add", names[i], NULL }), 0);
    ck_assert_int_eq(run_token(&out, (const char *const[]){ "list", NULL }), 0);
    const char *text = buffer_text(&out), *header = strstr(text, "PRINCIPAL"), *a = strstr(text, names[1]),
               *b = strstr(text, "bob"), *z = strstr(text, "zoe");
    ck_assert_msg(header && a && b && z && header < a && a < b && b < z, "%s", text);
    size_t width = strcspn(text, "\n") + 1, column = (size_t)(header - text);
    ck_assert_int_eq(strncmp(strchr(text, '\n') + 1 + column, names[1], strlen(names[1])), 0);
    ck_assert_uint_gt(width, column);
}
END_TEST

START_TEST(a_token_is_shown_once_and_stored_hashed)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    char hash[ID_HASH_SIZE];
    give_scratch();
    make_workspace("ws-0123456789abcdef0123456789abcdef", "alice");
    ck_assert_int_eq(
        run_token(&out, (const char *const[]){ "add", "alice", "--scope", "read,admin", "--workspace",
                                               "ws-0123456789abcdef0123456789abcdef", NULL }),
        0);
    char *token = xstrndup(out.data, strcspn(buffer_text(&out), "\n"));
    ck_assert_int_eq(strncmp(token, "wsp_", 4), 0);
    ck_assert_uint_ge(strlen(token), 47);
    id_hash(token, strlen(token), hash);
    _cleanup_free_ char *directory = xasprintf("%s/state", scratch);
    struct state *state = state_open(directory, &config_error);
    json_auto_t *record = NULL;
    ck_assert_int_eq(state_find_token(state, hash, &record, &config_error), 0);
    ck_assert_str_eq(json_string_value(json_object_get(record, "principal")), "alice");
    ck_assert_str_eq(json_string_value(json_object_get(record, "workspace_id")),
                     "ws-0123456789abcdef0123456789abcdef");
    ck_assert_uint_eq(json_array_size(json_object_get(record, "scopes")), 2);
    _cleanup_free_ char *text = json_dumps(record, 0), *data = xasprintf("%s/state/data.mdb", directory);
    ck_assert_ptr_null(strstr(text, token + 4));
    _cleanup_buffer_ struct buffer file = BUFFER_INIT;
    ck_assert_int_eq(io_read_file(AT_FDCWD, data, 64 << 20, &file, &config_error), 0);
    ck_assert_ptr_null(memmem(file.data, file.length, token + 4, strlen(token + 4)));
    state_close(state);
    const char *id = json_string_value(json_object_get(record, "id"));
    ck_assert_int_eq(run_token(&out, (const char *const[]){ "list", NULL }), 0);
    ck_assert_ptr_nonnull(strstr(buffer_text(&out), id));
    ck_assert_int_eq(strncmp(buffer_text(&out), "ID  ", 4), 0);
    ck_assert_ptr_nonnull(strstr(buffer_text(&out), "read,admin"));
    ck_assert_int_eq(run_token(&out, (const char *const[]){ "revoke", id, NULL }), 0);
    ck_assert_int_eq(run_token(&out, (const char *const[]){ "revoke", id, NULL }), 1);
    ck_assert_int_eq(run_token(&out, (const char *const[]){ "list", NULL }), 0);
    ck_assert_uint_eq(out.length, 0);
    free(token);
}
END_TEST

START_TEST(wrong_use_of_token_is_told)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    give_scratch();
    const char *const cases[][6] = {
        { NULL },
        { "steal", NULL },
        { "add", NULL },
        { "add", "", NULL },
        { "add", "a b", NULL },
        { "add", "a", "b", NULL },
        { "add", "a", "--scope", NULL },
        { "add", "a", "--scope", "", NULL },
        { "add", "a", "--scope", "read,all", NULL },
        { "add", "a", "--scope", "read,read", NULL },
        { "add", "a", "--scope", "rea", NULL },
        { "add", "a", "--workspace", "ws-1", NULL },
        { "revoke", NULL },
        { "revoke", "a", "b", NULL },
        { "list", "x", NULL },
    };
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        ck_assert_msg(run_token(&out, cases[i]) == 2, "case %zu", i);
        ck_assert_uint_eq(out.length, 0);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { a_token_for_no_workspace_of_its_principal_is_refused,
                                   tokens_are_listed_in_order_and_columns,
                                   a_token_is_shown_once_and_stored_hashed, wrong_use_of_token_is_told };
    return unit_run_tests("cmd_token", tests, N_ELEMENTS(tests), config_set_up, config_tear_down, 60);
}
