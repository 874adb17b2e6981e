/* Each program of examples/ is run as it stands. */
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
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, each_example_does_what_it_says, 0, (int)(sizeof examples / sizeof examples[0]));
    tcase_add_test(c, no_example_is_forgotten);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
