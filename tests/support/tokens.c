/* Owns the command line of `token` as tests use it. */
#include "tests/support/tokens.h"

#include "tests/support/must.h"

#include <stdio.h>
#include <string.h>

char *token_command(const struct instance *i, const char *arguments)
{
    static char output[4096];
    char line[1024];
    snprintf(line, sizeof line, "%s token %s --state %s 2>&1", build_path("workspace-fcgi"), arguments,
             instance_state(i));
    FILE *pipe = popen(line, "r");
    must(pipe != NULL, "token %s cannot be run", arguments);
    size_t length = fread(output, 1, sizeof output - 1, pipe);
    output[length] = '\0';
    must(pclose(pipe) == 0, "token %s: %s", arguments, output);
    return output;
}

void token_add(const struct instance *i, const char *arguments, char token[static 128])
{
    char line[512];
    snprintf(line, sizeof line, "add %s", arguments);
    const char *text = strstr(token_command(i, line), "wsp_");
    must(text != NULL, "token %s shows none", line);
    snprintf(token, 128, "%.*s", (int)strcspn(text, " \r\n\"'"), text);
}
