/* Each program of examples/ is run as it stands, and so is each line that README tells a newcomer to type. */
#include "tests/support/suite.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *prints;
} examples[] = {
    { "first.sh", "line 1\nline 2\nline 3\nended with 0\n" },
    { "talk.sh", "ended with 4\n" },
    { "mcp.sh", "Linux\nworkspace\n\ntrue\n" },
};

START_TEST(each_example_does_what_it_says)
{
    char line[600], output[20000];
    snprintf(line, sizeof line, "GATEWAY_URL=%s GATEWAY_TOKEN=%s timeout 30 examples/%s 2>&1",
             instance_url(the), instance_token(the), examples[_i].name);
    FILE *pipe = popen(line, "r");
    size_t length = fread(output, 1, sizeof output - 1, pipe);
    output[length] = '\0';
    int status = pclose(pipe);
    ck_assert_msg(status == 0 && strstr(output, examples[_i].prints), "%s: status %d: %s", examples[_i].name,
                  status, output);
}
END_TEST

/* ---- README ---- */

/* The line sees URL, TOKEN's folder STATE, and W, this build's program. Returns the status. */
static int sh(const char *line, char *output, size_t size)
{
    setenv("URL", instance_url(the), 1);
    setenv("STATE", instance_state(the), 1);
    setenv("W", build_path("workspace-fcgi"), 1);
    FILE *pipe = popen(line, "r");
    size_t length = fread(output, 1, size - 1, pipe);
    output[length] = '\0';
    return pclose(pipe);
}

/* As a paste: one line after the other in one shell. A refusal fails its line, which curl alone does not say.
 */
static const char first_lines[] =
    "script=$(mktemp -d) && cat >$script/all <<'END'\n"
    "set -o pipefail; shopt -s expand_aliases; cd ${0%/*}\n"
    "trap 'echo \"FAILED: $BASH_COMMAND\"' ERR\n"
    "curl() { command curl --fail-with-body --max-time 15 \"$@\"; }\n"
    "END\n"
    "sed -n '/^## First lines/,/^## Clients/s/^    //p' README.md |\n"
    "  sed \"s#/tmp/#$script/#; s#http://127.0.0.1:8080#$URL#; s#\\.run#$STATE#; s#build/workspace-fcgi#$W#\" >>$script/all\n"
    "echo 'echo; wc -l <$0; wc -c <head; echo ALL' >>$script/all\n"
    "timeout 100 bash $script/all 2>&1; rm -r $script\n";

START_TEST(readmes_first_lines_do_what_they_say)
{
    static const char *const says[] = {
        "Linux",    "sure? ",     "you said yes", "print(1)",    "old/a.py",      "src/b.py",
        "def main", "\"create\"", "src/c.py",     "\"stopped\"", "\n1024\nALL\n", "createRemoteWorkspace: "
    };
    static char output[400000];
    sh(first_lines, output, sizeof output);
    const char *failed = strstr(output, "FAILED: ");
    for (size_t i = 0; i < sizeof says / sizeof says[0] && !failed; i++)
        failed = strstr(output, says[i]) ? NULL : says[i];
    if (failed)
        fputs(output, stderr);
    ck_assert_msg(!failed, "%.500s", failed);
}
END_TEST

START_TEST(readmes_settings_are_taken)
{
    char output[20000];
    int status =
        sh("f=$(mktemp) && sed -n 's/^    #*\\(WORKSPACE_[A-Z_]*=\\)/\\1/p' README.md >$f\n"
           "[ $(wc -l <$f) -ge 3 ] && env -i $W describe config --config $f 2>&1; s=$?; rm $f; exit $s",
           output, sizeof output);
    ck_assert_msg(status == 0, "%s", output);
}
END_TEST

START_TEST(the_map_has_every_room)
{
    char output[4000];
    sh("find .ci conf examples fcgi lib openapi tests -type d -not -path 'tests/fuzz/corpus/*' | while read "
       "d; do\n"
       "  sed -n '/^## Map of the rooms/,/^## Add/p' README.md | grep -qF \"${d##*/}/\" || echo \"$d\"; done",
       output, sizeof output);
    ck_assert_str_eq(output, "");
}
END_TEST

START_TEST(no_example_is_forgotten)
{
    glob_t found;
    ck_assert_int_eq(glob("examples/*.sh", 0, NULL, &found), 0);
    ck_assert_uint_eq(found.gl_pathc, sizeof examples / sizeof examples[0]);
    globfree(&found);
    json_error_t error;
    json_auto_t *client = json_load_file("examples/mcp-client.json", 0, &error);
    ck_assert_msg(client != NULL, "mcp-client.json: %s", error.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("examples");
    TCase *c = tcase_create("examples");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, each_example_does_what_it_says, 0, (int)(sizeof examples / sizeof examples[0]));
    tcase_add_test(c, no_example_is_forgotten);
    tcase_add_test(c, readmes_first_lines_do_what_they_say);
    tcase_add_test(c, readmes_settings_are_taken);
    tcase_add_test(c, the_map_has_every_room);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
