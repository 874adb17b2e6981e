/* Owns the shell of an operator and what it printed last. Knows no command. */
#include "tests/support/operator_case.h"

#include "tests/support/instance.h"
#include "tests/support/scratch.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

char operator_output[32768], operator_state[128];

void operator_set_up(void)
{
    scratch_make();
    ck_assert_int_eq(chmod(scratch, 0755), 0);
    snprintf(operator_state, sizeof operator_state, "%s/state", scratch);
    setenv("W", build_path("workspace-fcgi"), 1);
    setenv("S", operator_state, 1);
    unsetenv("WORKSPACE_TOKEN");
}

void operator_tear_down(void)
{
    setenv("D", scratch, 1);
    ck_assert_int_eq(system("kill $(pgrep -f -- \"--state $D\") 2>/dev/null; sleep 0.2; :"), 0);
    scratch_remove();
}

int operator_types(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    _cleanup_free_ char *line = NULL;
    ck_assert_int_ge(vasprintf(&line, format, list), 0);
    va_end(list);
    _cleanup_free_ char *whole = xasprintf("exec 2>&1; %s", line);
    FILE *pipe = popen(whole, "r");
    size_t length = fread(operator_output, 1, sizeof operator_output - 1, pipe);
    operator_output[length] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

void operator_reads(const char *text)
{
    ck_assert_msg(strstr(operator_output, text) != NULL, "'%s' is not in: %s", text, operator_output);
}

bool operator_finds(const char *path)
{
    return access(path, F_OK) == 0;
}

bool operator_is_root(void)
{
    return geteuid() == 0;
}
