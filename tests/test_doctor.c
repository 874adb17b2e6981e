/* doctor as an operator runs it: its answer, its cures, its exit status. */
#include "lib/base/buffer.h"
#include "lib/base/io.h"
#include "lib/store/state.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char state[128];

static char *program(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < 2; i++) /* BUILD/tests/test_doctor -> BUILD */
        *strrchr(path, '/') = '\0';
    return xasprintf("%s/workspace-fcgi", path);
}

/* Returns the exit status; *ret = what it printed. */
static int run(const char *setting, json_t **ret)
{
    int pair[2], status = 0;
    char text[32768];
    size_t length = 0;
    _cleanup_free_ char *path = program();
    ck_assert_int_eq(pipe(pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pair[1], STDOUT_FILENO);
        close(pair[0]);
        execl(path, path, "doctor", "--state", state, "--json", setting ? "--set" : NULL, setting, NULL);
        _exit(127);
    }
    close(pair[1]);
    for (ssize_t n; length < sizeof text && (n = read(pair[0], text + length, sizeof text - length)) > 0;)
        length += (size_t)n;
    close(pair[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    *ret = json_loadb(text, length, 0, NULL);
    ck_assert_msg(*ret != NULL, "no JSON: %.*s", (int)length, text);
    return WEXITSTATUS(status);
}

static const json_t *find(const json_t *answer, const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(answer, "checks"), i, row) {
        if (!strcmp(json_string_value(json_object_get(row, "check")), name))
            return row;
    }
    ck_abort_msg("no row %s", name);
}

static const char *member(const json_t *answer, const char *name, const char *key)
{
    const char *text = json_string_value(json_object_get(find(answer, name), key));
    return text ? text : "";
}

static const struct passwd *user(void)
{
    return getpwnam("www-data");
}

static void put(const char *name, uid_t uid, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", state, name);
    ck_assert_int_eq(io_replace_file(AT_FDCWD, path, text, strlen(text), 0600, NULL), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(chown(path, uid, (gid_t)-1), 0);
}

static void make_state(void)
{
    snprintf(state, sizeof state, "/tmp/wsf-doctor-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(state));
    ck_assert_int_eq(chmod(state, 0770), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(chown(state, user()->pw_uid, user()->pw_gid), 0);
}

static void remove_state(void)
{
    io_remove_tree(AT_FDCWD, state, NULL);
}

START_TEST(a_host_that_can_is_told_so)
{
    static const char *const good[] = { "namespaces",      "bubblewrap",  "seccomp", "agent",
                                        "state directory", "path length", "space" };
    json_t *answer;
    ck_assert_int_eq(run(NULL, &answer), 0);
    ck_assert(json_is_true(json_object_get(answer, "ok")));
    for (size_t i = 0; i < N_ELEMENTS(good); i++)
        ck_assert_msg(!strcmp(member(answer, good[i], "level"), "ok"), "%s: %s", good[i],
                      member(answer, good[i], "text"));
    ck_assert_ptr_nonnull(strstr(member(answer, "limits", "text"), "memory: "));
    ck_assert_str_eq(member(answer, "store", "level"), "warn");
    ck_assert_str_eq(member(answer, "packages", "text"), "workspaces share 0 Python packages, 0 of 2048 MiB");
    json_decref(answer);
    put("stamp", 0, "0123456789abcdef 7 3000\n");
    _cleanup_free_ char *line =
        xasprintf("cd %s && mkdir -p tools/.packages && mv stamp tools/.packages", state);
    ck_assert_int_eq(system(line), 0);
    run(NULL, &answer);
    ck_assert_str_eq(member(answer, "packages", "level"), "warn");
    ck_assert_ptr_nonnull(
        strstr(member(answer, "packages", "text"), "7 Python packages, 3000 MiB: there is no room"));
    json_decref(answer);
}
END_TEST

START_TEST(an_open_state_directory_fails_with_its_cure)
{
    json_t *answer;
    chmod(state, 0777);
    ck_assert_int_eq(run(NULL, &answer), 1);
    ck_assert(json_is_false(json_object_get(answer, "ok")));
    ck_assert_str_eq(member(answer, "state directory", "level"), "fail");
    ck_assert_ptr_nonnull(strstr(member(answer, "state directory", "cure"), "chmod o-rwx"));
    json_decref(answer);
}
END_TEST

START_TEST(a_missing_agent_fails_with_its_cure)
{
    json_t *answer;
    ck_assert_int_eq(run("WORKSPACE_AGENT=/nowhere/agent", &answer), 1);
    ck_assert_str_eq(member(answer, "agent", "level"), "fail");
    ck_assert_ptr_nonnull(strstr(member(answer, "agent", "text"), "/nowhere/agent"));
    ck_assert_ptr_nonnull(strstr(member(answer, "agent", "cure"), "set WORKSPACE_AGENT"));
    json_decref(answer);
}
END_TEST

/* Two that are covered by what is no program, in a mount namespace of its own. */
START_TEST(missing_tools_are_told_with_the_line_that_brings_them)
{
    char line[600], text[16384] = "";
    if (geteuid() != 0)
        return;
    _cleanup_free_ char *path = program();
    snprintf(line, sizeof line,
             "unshare -m sh -c 'mount --bind /dev/null /usr/bin/rg; mount --bind /dev/null /usr/bin/fdfind; "
             "%s doctor --state %s'",
             path, state);
    FILE *pipe = popen(line, "re");
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, pipe), 0);
    pclose(pipe);
    ck_assert_ptr_nonnull(strstr(text, "find programs: rg fd\n"));
    ck_assert_ptr_nonnull(strstr(text, "cure: apt-get install ripgrep fd-find\n"));
    ck_assert_ptr_nonnull(strstr(text, "searching in files answers 501"));
    ck_assert_ptr_nonnull(strstr(text, "cure: apt-get install ripgrep, then stop the workspaces that run\n"));
    ck_assert_ptr_nonnull(strstr(text, "uv is neither in /usr nor in"));
}
END_TEST

START_TEST(a_missing_state_directory_is_told_and_not_made)
{
    json_t *answer;
    ck_assert_int_eq(rmdir(state), 0);
    ck_assert_int_eq(run(NULL, &answer), 0);
    ck_assert_str_eq(member(answer, "state directory", "level"), "warn");
    ck_assert_ptr_nonnull(strstr(member(answer, "state directory", "text"), "there is none yet at"));
    ck_assert_int_eq(access(state, F_OK), -1);
    json_decref(answer);
}
END_TEST

START_TEST(a_foreign_owner_fails_with_the_chown)
{
    json_t *answer;
    char cure[200];
    if (geteuid() != 0)
        return;
    put("token", 0, "x");
    ck_assert_int_eq(chown(state, 0, 0), 0);
    snprintf(cure, sizeof cure, "chown -R --from=0 www-data: '%s'", state);
    for (int i = 0; i < 2; i++) { /* root's directory, then a file of root's in one that is www-data's */
        ck_assert_int_eq(run(NULL, &answer), 1);
        ck_assert_str_eq(member(answer, "state directory", "level"), "fail");
        ck_assert_str_eq(member(answer, "state directory", "cure"), cure);
        json_decref(answer);
        ck_assert_int_eq(chown(state, user()->pw_uid, user()->pw_gid), 0);
    }
    ck_assert_int_eq(system(cure), 0);
    ck_assert_int_eq(run(NULL, &answer), 0);
    json_decref(answer);
}
END_TEST

START_TEST(the_token_of_run_counts)
{
    json_t *answer;
    put("token", geteuid() == 0 ? user()->pw_uid : geteuid(), "0123456789abcdef\n");
    struct state *store = state_open(state, NULL);
    ck_assert_ptr_nonnull(store);
    state_close(store);
    ck_assert_int_eq(run(NULL, &answer), 0);
    ck_assert_str_eq(member(answer, "store", "level"), "ok");
    ck_assert_ptr_nonnull(strstr(member(answer, "store", "text"), "from the file `token`"));
    json_decref(answer);
}
END_TEST

START_TEST(a_closed_folder_above_is_told)
{
    json_t *answer;
    char line[400], text[4096] = "";
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chmod(state, 0700), 0);
    ck_assert_int_eq(chown(state, 0, 0), 0);
    char whole[128];
    snprintf(whole, sizeof whole, "%s", state);
    snprintf(state + strlen(state), sizeof state - strlen(state), "/below");
    ck_assert_int_eq(mkdir(state, 0750), 0);
    ck_assert_int_eq(chown(state, user()->pw_uid, user()->pw_gid), 0);
    run(NULL, &answer);
    ck_assert_str_eq(member(answer, "folders above", "level"), "warn");
    ck_assert_ptr_nonnull(strstr(member(answer, "folders above", "cure"), "chmod o+x"));
    json_decref(answer);
    _cleanup_free_ char *path = program();
    snprintf(line, sizeof line,
             "setpriv --reuid www-data --regid www-data --clear-groups %s doctor --state %s", path, state);
    FILE *pipe = popen(line, "r");
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, pipe), 0);
    int status = pclose(pipe);
    ck_assert_int_eq(WEXITSTATUS(status), 1);
    ck_assert_ptr_nonnull(strstr(text, "which www-data may not enter"));
    snprintf(state, sizeof state, "%s", whole);
}
END_TEST

START_TEST(a_damaged_store_fails)
{
    json_t *answer;
    char path[200];
    snprintf(path, sizeof path, "%s/state", state);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(chown(path, user()->pw_uid, user()->pw_gid), 0);
    snprintf(path, sizeof path, "%s/state/data.mdb", state);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    for (int i = 0; i < 4096; i++)
        ck_assert_int_eq(write(fd, "garbage ", 8), 8);
    if (geteuid() == 0)
        ck_assert_int_eq(fchown(fd, user()->pw_uid, user()->pw_gid), 0);
    close(fd);
    ck_assert_int_eq(run(NULL, &answer), 1);
    ck_assert_str_eq(member(answer, "state directory", "level"), "ok");
    ck_assert_str_eq(member(answer, "store", "level"), "fail");
    json_decref(answer);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("doctor");
    TCase *c = tcase_create("doctor");
    tcase_add_checked_fixture(c, make_state, remove_state);
    tcase_set_timeout(c, 30);
    tcase_add_test(c, a_host_that_can_is_told_so);
    tcase_add_test(c, an_open_state_directory_fails_with_its_cure);
    tcase_add_test(c, a_missing_agent_fails_with_its_cure);
    tcase_add_test(c, missing_tools_are_told_with_the_line_that_brings_them);
    tcase_add_test(c, a_missing_state_directory_is_told_and_not_made);
    tcase_add_test(c, a_foreign_owner_fails_with_the_chown);
    tcase_add_test(c, the_token_of_run_counts);
    tcase_add_test(c, a_closed_folder_above_is_told);
    tcase_add_test(c, a_damaged_store_fails);
    suite_add_tcase(s, c);
    return unit_run(s);
}
