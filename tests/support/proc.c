/* Reads single numbers of proc(5). Knows nothing of what the processes are. */
#include "tests/support/proc.h"

#include <stdio.h>
#include <string.h>

/* The number in the line that begins with the name; with an empty name the file's first. */
static double number_of(const char *path, const char *name)
{
    char line[200];
    double number = 0;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0 && sscanf(line + strlen(name), "%lf", &number) == 1)
            break;
    if (file)
        fclose(file);
    return number;
}

double proc_pss_kib(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    return number_of(path, "Pss:");
}

double proc_anonymous_kib(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    return number_of(path, "Pss_Anon:");
}

pid_t proc_parent(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    return (pid_t)number_of(path, "PPid:");
}

pid_t proc_first_child(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    return (pid_t)number_of(path, "");
}
