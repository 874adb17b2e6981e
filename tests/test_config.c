/* The settings: file, environment, old names, every problem named; the committed sample; whose the state
 * directory is. */
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/config/settings.h"
#include "tests/support/config_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <ctype.h>
#include <fcntl.h>
#include <glob.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

START_TEST(defaults_are_complete)
{
    struct config *config = config_load(NULL, NULL, &config_error);
    ck_assert_msg(config != NULL, "%s", config_error.message);
    ck_assert_str_eq(config->state_dir, "/var/lib/workspace-fcgi");
    ck_assert_str_eq(config->token, "");
    ck_assert_str_eq(config->driver, "local");
    ck_assert_str_eq(config->network, "host");
    ck_assert_str_eq(config->log_level, "INFO");
    ck_assert_int_eq(config->max_output_chars, 120000);
    ck_assert_int_eq(config->max_file_chars, 500000);
    ck_assert_int_eq(config->max_list_entries, 500);
    ck_assert_int_eq(config->event_log_bytes, 67108864);
    ck_assert_int_eq(config->event_log_ttl, 86400);
    ck_assert_int_eq(config->keep, 2592000);
    ck_assert_int_eq(config->command_timeout, 60);
    ck_assert_int_eq(config->max_search_results, 50);
    ck_assert_int_eq(config->max_read_size_bytes, 1048576);
    ck_assert_int_eq(config->max_write_size_bytes, 5242880);
    ck_assert_int_eq(config->processes, 256);
    ck_assert_int_eq(config->workers, 2);
    config_free(config);
    config_free(NULL);
}
END_TEST

/* What the table promises of each row: its default passes its own rule, its name and help are fit to print.
 */
START_TEST(rows_are_sound)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *row = &settings[i];
        bool is_alias;
        ck_assert_ptr_eq(setting_find(row->name, &is_alias), row);
        ck_assert(!is_alias);
        ck_assert_uint_eq(strspn(row->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), strlen(row->name));
        ck_assert(row->help && strlen(row->help) > 10 && strlen(row->help) <= 300);
        ck_assert(row->type == SETTING_INTEGER || !row->rule || row->rule(row->dflt) == NULL);
        if (row->type == SETTING_INTEGER) {
            long long dflt = strtoll(row->dflt, NULL, 10);
            ck_assert_msg(dflt >= row->min && dflt <= row->max, "%s", row->name);
        }
        for (size_t k = 0; k < setting_count; k++)
            ck_assert_msg(k == i || settings[k].offset != row->offset, "%s and %s share a member", row->name,
                          settings[k].name);
    }
}
END_TEST

START_TEST(a_file_is_read)
{
    struct config *config = config_from(
        "# a comment\n\n  WORKSPACE_STATE_DIR = /srv/x/ \r\nWORKSPACE_TOKEN=\"s3cret-s3cret-s3=\"\n"
        "WORKSPACE_MOUNT=/workspace/\nWORKSPACE_WORKERS=7\nWORKSPACE_LOG_LEVEL=debug\n"
        "WORKSPACE_BASE_URL='https://example.org/workspace/'");
    ck_assert_msg(config != NULL, "%s", config_error.message);
    ck_assert_str_eq(config->state_dir, "/srv/x");
    ck_assert_str_eq(config->token, "s3cret-s3cret-s3=");
    ck_assert_str_eq(config->mount, "/workspace");
    ck_assert_str_eq(config->base_url, "https://example.org/workspace");
    ck_assert_str_eq(config->log_level, "DEBUG");
    ck_assert_int_eq(config->workers, 7);
    _cleanup_free_ char *path = config_path(config, "events", "ws-1"),
                        *other = config_path(config, "fcgi.sock", NULL);
    ck_assert_str_eq(path, "/srv/x/events/ws-1");
    ck_assert_str_eq(other, "/srv/x/fcgi.sock");
    config_free(config);
}
END_TEST

START_TEST(a_comment_may_follow_a_value)
{
    static const struct {
        const char *line, *value;
    } cases[] = {
        { "/a   # the path", "/a" }, { "/a\t#", "/a" },
        { "/a # b # c", "/a" },      { "/a#b", "/a#b" },
        { "/a#b #c", "/a#b" },       { "#a", "#a" },
        { "  # nothing", "" },       { "", "" },
        { "\"/a # b\"", "/a # b" },  { "'/a # b'\t# c", "/a # b" },
        { "\"/a\" # \"b\"", "/a" },  { "\"/a\"b\" # c", "/a\"b" },
        { "\"/a\"#b", "\"/a\"#b" },  { "'/a # b", "'/a" },
        { "\"\" # none", "" },       { "it's", "it's" },
    };
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        _cleanup_free_ char *text = xasprintf("WORKSPACE_ALLOWED_SECRETS=%s\r\n", cases[i].line);
        struct config *config = config_from(text);
        ck_assert_msg(config != NULL, "%s: %s", cases[i].line, config_error.message);
        ck_assert_msg(strcmp(config->allowed_secrets, cases[i].value) == 0, "%s: %s", cases[i].line,
                      config->allowed_secrets);
        config_free(config);
    }
    struct config *config =
        config_from("WORKSPACE_TOKEN=#abcdef#0123456789# # the owner's\nWORKSPACE_WORKERS=7 # two\n");
    ck_assert_msg(config != NULL, "%s", config_error.message);
    ck_assert_str_eq(config->token, "#abcdef#0123456789#");
    ck_assert_int_eq(config->workers, 7);
    config_free(config);
}
END_TEST

START_TEST(only_what_is_named_is_passed)
{
    static const char *const wrong[] = { "WORKSPACE_PASS_ENV=A B", "WORKSPACE_PASS_ENV=A,,B",
                                         "WORKSPACE_PASS_ENV=1A", "WORKSPACE_PASS_ENV=A=B",
                                         "WORKSPACE_PASS_ENV=PATH,WORKSPACE_TOKEN" };
    setenv("TEST_INDEX", "https://index.example/simple", 1);
    setenv("TEST_SECRET", "hidden", 1);
    struct config *config = config_from("WORKSPACE_PASS_ENV=TEST_INDEX,TEST_ABSENT");
    ck_assert_msg(config != NULL, "%s", config_error.message);
    json_t *passed = config_passed_variables(config);
    ck_assert_uint_eq(json_object_size(passed), 1);
    ck_assert_str_eq(json_string_value(json_object_get(passed, "TEST_INDEX")),
                     "https://index.example/simple");
    json_decref(passed);
    config_free(config);
    config = config_from("");
    passed = config_passed_variables(config);
    ck_assert_uint_eq(json_object_size(passed), 0);
    json_decref(passed);
    config_free(config);
    for (size_t i = 0; i < N_ELEMENTS(wrong); i++) {
        ck_assert_ptr_null(config_from(wrong[i]));
        ck_assert_ptr_nonnull(strstr(config_error.message, "WORKSPACE_PASS_ENV must"));
        error_clear(&config_error);
    }
}
END_TEST

START_TEST(the_environment_wins_and_the_command_line_too)
{
    const char *const overrides[] = { "WORKSPACE_MAX_FILE_CHARS=3000", NULL };
    const char *text = "WORKSPACE_WORKERS=7\nWORKSPACE_PROCESSES=70\nWORKSPACE_MAX_FILE_CHARS=1000\n";
    setenv("WORKSPACE_PROCESSES", "71", 1);
    setenv("WORKSPACE_MAX_FILE_CHARS", "2000", 1);
    setenv("WORKSPACE_STATE_DIR", "run", 1);
    setenv("WORKSPACE_WROKERS", "9", 1);
    _cleanup_free_ char *path = xasprintf("%s/settings", scratch);
    ck_assert_int_eq(io_replace_file(AT_FDCWD, path, text, strlen(text), 0600, &config_error), 0);
    struct config *config = config_load(path, overrides, &config_error);
    ck_assert_msg(config != NULL, "%s", config_error.message);
    ck_assert_int_eq(config->workers, 7);
    ck_assert_int_eq(config->processes, 71);
    ck_assert_int_eq(config->max_file_chars, 3000);
    _cleanup_free_ char *here = getcwd(NULL, 0), *expected = xasprintf("%s/run", here);
    ck_assert_str_eq(config->state_dir, expected);
    ck_assert(config_log_has("WORKSPACE_WROKERS"));
    config_free(config);
}
END_TEST

START_TEST(old_names_are_taken_with_a_line)
{
    setenv("MODAL_WORKSPACE_MCP_TOKEN", "old-token-old-token", 1);
    setenv("COMMAND_TIMEOUT", "61", 1);
    setenv("MAX_SEARCH_RESULTS", "62", 1);
    setenv("LOG_LEVEL", "warning", 1);
    setenv("MODAL_WORKSPACE_MAX_OUTPUT_CHARS", "63000", 1);
    setenv("WORKSPACE_MAX_OUTPUT_CHARS", "64000", 1);
    struct config *config = config_from("MODAL_WORKSPACE_ALLOWED_SECRETS=a,b\n");
    ck_assert_msg(config != NULL, "%s", config_error.message);
    ck_assert_str_eq(config->token, "old-token-old-token");
    ck_assert_str_eq(config->allowed_secrets, "a,b");
    ck_assert_str_eq(config->log_level, "WARNING");
    ck_assert_int_eq(config->command_timeout, 61);
    ck_assert_int_eq(config->max_search_results, 62);
    ck_assert_int_eq(config->max_output_chars, 64000);
    ck_assert(config_log_has("MODAL_WORKSPACE_MCP_TOKEN is an old name of WORKSPACE_TOKEN"));
    ck_assert(config_log_has("COMMAND_TIMEOUT is an old name"));
    ck_assert(!config_log_has("old-token-old-token"));
    config_free(config);
}
END_TEST

START_TEST(every_problem_is_named_with_its_line)
{
    static const struct {
        const char *text, *problem;
    } cases[] = {
        { "WORKSPACE_WORKERS=x", "/settings:1: WORKSPACE_WORKERS is not a whole number" },
        { "\nWORKSPACE_WORKERS=", "/settings:2: WORKSPACE_WORKERS is not a whole number" },
        { "WORKSPACE_WORKERS=1 2", "not a whole number" },
        { "WORKSPACE_WORKERS=1#two",
          "not a whole number (a # begins a comment only in the file, and only after" },
        { "WORKSPACE_WORKERS=0x10", "not a whole number" },
        { "WORKSPACE_WORKERS=99999999999999999999999", "not a whole number" },
        { "WORKSPACE_WORKERS=0", "must be from 1 to 64" },
        { "WORKSPACE_WORKERS=-1", "must be from 1 to 64" },
        { "WORKSPACE_WORKERS=2\nWORKSPACE_WORKERS=2", "/settings:2: WORKSPACE_WORKERS is set already in " },
        { "WORKSPACE_WRKERS=2", ":1: there is no setting WORKSPACE_WRKERS" },
        { "hello", ":1: is not NAME=VALUE" },
        { "WORKSPACE_MOUNT=workspace", ":1: WORKSPACE_MOUNT must be" },
        { "WORKSPACE_MOUNT=/a/../b", "WORKSPACE_MOUNT must be" },
        { "WORKSPACE_BASE_URL=ftp://x", "WORKSPACE_BASE_URL must be" },
        { "WORKSPACE_BASE_URL=https:///", "WORKSPACE_BASE_URL must be" },
        { "WORKSPACE_BASE_URL=https://:8443/a", "WORKSPACE_BASE_URL must be" },
        { "WORKSPACE_TOKEN=fifteen-letters", "WORKSPACE_TOKEN must have at least 16 characters" },
        { "WORKSPACE_TOKEN=a b", "WORKSPACE_TOKEN must be printable" },
        { "WORKSPACE_MCP_TOOLSETS=foo", "WORKSPACE_MCP_TOOLSETS must be of workspace, repo" },
        { "WORKSPACE_MCP_TOOLSETS=file,watc", "WORKSPACE_MCP_TOOLSETS must be of workspace, repo" },
        { "WORKSPACE_NETWORK=wifi", "WORKSPACE_NETWORK must be host or none" },
        { "WORKSPACE_LOG_LEVEL=loud", "WORKSPACE_LOG_LEVEL must be" },
        { "WORKSPACE_STATE_DIR=", "WORKSPACE_STATE_DIR must not be empty" },
        { "WORKSPACE_AGENT=agent", "WORKSPACE_AGENT must be an absolute path" },
        { "WORKSPACE_DEFAULT_IMAGE_NAME=a\tb", "WORKSPACE_DEFAULT_IMAGE_NAME has a control character" },
    };
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        struct config *config = config_from(cases[i].text);
        ck_assert_msg(config == NULL, "accepted: %s", cases[i].text);
        ck_assert_int_eq(config_error.code, ERROR_INVALID);
        ck_assert_msg(strstr(config_error.message, cases[i].problem), "%s: %s", cases[i].text,
                      config_error.message);
        ck_assert_msg(!config_log_has(cases[i].problem), "told twice: %s", cases[i].problem);
        ck_assert_uint_eq(json_array_size(config_error.detail), 1);
    }
    ck_assert_ptr_null(config_from("WORKSPACE_WORKERS=0\nWORKSPACE_NETWORK=x\nWORKSPACE_KEEP=-1\n"));
    ck_assert_msg(strncmp(config_error.message, "3 problems", 10) == 0 &&
                      strstr(config_error.message, "settings:1: ") &&
                      strstr(config_error.message, "settings:2: ") &&
                      strstr(config_error.message, "settings:3: "),
                  "%s", config_error.message);
    ck_assert_uint_eq(json_array_size(config_error.detail), 3);
    setenv("WORKSPACE_WORKERS", "many", 1);
    ck_assert_ptr_null(config_from(""));
    ck_assert_msg(strstr(config_error.message, "environment: WORKSPACE_WORKERS"), "%s", config_error.message);
}
END_TEST

START_TEST(what_has_no_effect_is_told)
{
    struct config *config = config_from("WORKSPACE_DEFAULT_IMAGE_NAME=python\nWORKSPACE_MAX_FILE_CHARS=1000\n"
                                        "WORKSPACE_GITHUB_API_URL=https://api.github.com\n");
    config_log_unused(config);
    ck_assert(config_log_has("WORKSPACE_DEFAULT_IMAGE_NAME has no effect with the local driver"));
    ck_assert(config_log_has("WORKSPACE_MAX_FILE_CHARS has no effect yet"));
    ck_assert(!config_log_has("WORKSPACE_ALLOWED_SECRETS"));
    ck_assert(!config_log_has("WORKSPACE_GITHUB_API_URL"));
    config_free(config);
}
END_TEST

/* Every row's member has its name in small letters. */
static bool is_read(const struct buffer *code, const char *member)
{
    _cleanup_free_ char *use = xasprintf("->%s", member);
    for (const char *at = code->data; (at = strstr(at, use)); at++)
        if (!isalnum((unsigned char)at[strlen(use)]) && at[strlen(use)] != '_')
            return true;
    return false;
}

START_TEST(a_setting_that_nobody_reads_says_so)
{
    static const char *const places[] = { "fcgi/*.c", "fcgi/*/*.c", "lib/*/*.c", "lib/*/*/*.c" };
    _cleanup_buffer_ struct buffer code = BUFFER_INIT;
    glob_t found;
    for (size_t i = 0; i < N_ELEMENTS(places); i++)
        ck_assert_int_eq(glob(places[i], i ? GLOB_APPEND : 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        ck_assert_int_eq(io_read_file(AT_FDCWD, found.gl_pathv[i], 1 << 20, &code, &config_error), 0);
    globfree(&found);
    buffer_text(&code);
    for (const struct setting *row = settings; row < settings + setting_count; row++) {
        _cleanup_free_ char *member = xstrdup(row->name + strlen("WORKSPACE_"));
        for (char *p = member; *p; p++)
            *p = (char)tolower((unsigned char)*p);
        ck_assert_msg(is_read(&code, member) == !(row->not_yet || row->not_local), "%s", row->name);
    }
}
END_TEST

START_TEST(the_prefix_is_the_mount_or_the_urls_path)
{
    static const struct {
        const char *text, *prefix;
    } cases[] = {
        { "", "" },
        { "WORKSPACE_MOUNT=/a/b/", "/a/b" },
        { "WORKSPACE_BASE_URL=https://x.example", "" },
        { "WORKSPACE_BASE_URL=https://x.example/c/", "/c" },
        { "WORKSPACE_MOUNT=/a\nWORKSPACE_BASE_URL=https://x.example/c", "/a" },
    };
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        struct config *config = config_from(cases[i].text);
        ck_assert_str_eq(config_prefix(config), cases[i].prefix);
        config_free(config);
    }
}
END_TEST

START_TEST(hostile_files_are_refused)
{
    _cleanup_free_ char *path = xasprintf("%s/settings", scratch), *large = xcalloc(1, 3 << 20);
    ck_assert_ptr_null(config_load("/nonexistent/settings", NULL, &config_error));
    ck_assert_ptr_null(config_load(scratch, NULL, &config_error));
    memset(large, '#', (3 << 20) - 1);
    ck_assert_int_eq(io_replace_file(AT_FDCWD, path, large, strlen(large), 0600, &config_error), 0);
    ck_assert_ptr_null(config_load(path, NULL, &config_error));
    ck_assert_int_eq(io_replace_file(AT_FDCWD, path, "WORKSPACE_TOKEN=a\0b", 19, 0600, &config_error), 0);
    ck_assert_ptr_null(config_load(path, NULL, &config_error));
    for (int i = 0; i < 2000; i++) {
        char noise[300];
        id_random(noise, sizeof noise);
        for (size_t k = 0; k < sizeof noise; k += 9)
            memcpy(noise + k, k % 2 ? "=\"" : "\n=", 2);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        ck_assert_int_eq(io_write_all(fd, noise, sizeof noise, &config_error), 0);
        config_free(config_load(path, NULL, &config_error));
        error_clear(&config_error);
    }
    memset(large, 'v', 100000);
    memcpy(large, "WORKSPACE_TOKEN=", 16);
    large[100000] = '\0';
    ck_assert_ptr_null(config_from(large));
    ck_assert(strstr(config_error.message, "too long"));
}
END_TEST

START_TEST(children_get_what_differs)
{
    struct config *config =
        config_from("WORKSPACE_TOKEN=secret-secret-secret\nWORKSPACE_WORKERS=3\nWORKSPACE_NETWORK=host\n");
    char **environment = config_environment(config);
    size_t count = 0;
    bool workers = false;
    for (; environment[count]; count++)
        workers |= strcmp(environment[count], "WORKSPACE_WORKERS=3") == 0;
    ck_assert(workers);
    ck_assert_uint_eq(count, 1); /* no secret */
    environ = environment;
    struct config *again = config_load(NULL, NULL, &config_error);
    ck_assert_str_eq(again->token, "");
    ck_assert_int_eq(again->workers, 3);
    clearenv();
    config_free_environment(environment);
    config_free(config);
    config_free(again);
}
END_TEST

START_TEST(secrets_are_known_by_all_their_names)
{
    ck_assert(config_is_secret("WORKSPACE_TOKEN=x"));
    ck_assert(config_is_secret("WORKSPACE_TOKEN="));
    ck_assert(config_is_secret("MODAL_WORKSPACE_MCP_TOKEN=x"));
    ck_assert(!config_is_secret("WORKSPACE_TOKENS=x"));
    ck_assert(!config_is_secret("WORKSPACE_WORKERS=3"));
    ck_assert(!config_is_secret("PATH"));
}
END_TEST

START_TEST(the_sample_is_the_committed_one)
{
    _cleanup_buffer_ struct buffer sample = BUFFER_INIT, committed = BUFFER_INIT;
    config_describe(&sample);
    ck_assert_int_eq(io_read_file(AT_FDCWD, "conf/workspace-fcgi.conf", 1 << 20, &committed, &config_error),
                     0);
    ck_assert_msg(sample.length == committed.length &&
                      memcmp(sample.data, committed.data, sample.length) == 0,
                  "conf/workspace-fcgi.conf is not what `workspace-fcgi describe config` prints");
}
END_TEST

/* With every "#" before a setting taken away the sample is a file of defaults. */
START_TEST(the_sample_can_be_loaded)
{
    _cleanup_buffer_ struct buffer sample = BUFFER_INIT;
    config_describe(&sample);
    char *text = xstrdup(buffer_text(&sample));
    for (char *at = text; (at = strstr(at, "#WORKSPACE_"));)
        *at = ' ';
    struct config *config = config_from(text);
    ck_assert_msg(config != NULL, "%s", config_error.message);
    char **environment = config_environment(config);
    ck_assert_ptr_null(environment[0]);
    config_free_environment(environment);
    config_free(config);
    free(text);
}
END_TEST

/* ---- the owner of the state directory ---- */

static int in_child(int (*run)(struct config *), const char *leaf, const char *text)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct config *config = config_for(leaf, text);
        int result = run(config);
        config_free(config);
        _exit(result);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int become_and_look(struct config *config)
{
    struct stat st;
    if (mkdir(config->state_dir, 0750) < 0 || chown(config->state_dir, 12345, 54321) < 0 ||
        config_become_owner(config, &config_error) < 0 || stat(config->state_dir, &st) < 0)
        return 1;
    if (geteuid() == 0 || st.st_uid != geteuid() || st.st_gid != getegid() || setuid(0) == 0)
        return 2;
    return 0;
}

/* One that is not there yet, or root's, is for WORKSPACE_USER. */
static int become_the_user(struct config *config)
{
    const struct passwd *user = getpwnam("www-data");
    if (mkdir(config->state_dir, 0755) < 0 || config_become_owner(config, &config_error) < 0)
        return 1;
    return geteuid() == user->pw_uid && getegid() == user->pw_gid && setuid(0) < 0 ? 0 : 2;
}

static int become_nobody_known(struct config *config)
{
    return config_become_owner(config, &config_error) < 0 && strstr(config_error.message, "no-such-user-here")
               ? 0
               : 1;
}

START_TEST(root_becomes_the_owner)
{
    if (geteuid() != 0) {
        printf("SKIPPED: becoming another user needs root\n");
        return;
    }
    ck_assert_int_eq(chmod(scratch, 0755), 0);
    ck_assert_int_eq(in_child(become_and_look, "mine", "WORKSPACE_USER=www-data\n"), 0);
    ck_assert_int_eq(in_child(become_the_user, "roots", "WORKSPACE_USER=www-data\n"), 0);
    ck_assert_int_eq(in_child(become_nobody_known, "newer", "WORKSPACE_USER=no-such-user-here\n"), 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { defaults_are_complete,
                                   rows_are_sound,
                                   a_file_is_read,
                                   a_comment_may_follow_a_value,
                                   only_what_is_named_is_passed,
                                   the_environment_wins_and_the_command_line_too,
                                   old_names_are_taken_with_a_line,
                                   every_problem_is_named_with_its_line,
                                   what_has_no_effect_is_told,
                                   a_setting_that_nobody_reads_says_so,
                                   the_prefix_is_the_mount_or_the_urls_path,
                                   hostile_files_are_refused,
                                   children_get_what_differs,
                                   secrets_are_known_by_all_their_names,
                                   the_sample_is_the_committed_one,
                                   the_sample_can_be_loaded,
                                   root_becomes_the_owner };
    return unit_run_tests("config", tests, N_ELEMENTS(tests), config_set_up, config_tear_down, 60);
}
