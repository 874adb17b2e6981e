/* Reads /proc: each process once, its threads summed. What lives in sandboxes is found below the keepers. */
#include "tests/bench/costs.h"

#include "lib/base/memory.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

const char *const cost_names[COST_KINDS] = {
    [COST_FRONT] = "lighttpd",    [COST_WORKERS] = "workers", [COST_WARDEN] = "warden",
    [COST_KEEPERS] = "keepers",   [COST_BWRAP] = "bwrap",     [COST_AGENTS] = "agents",
    [COST_COMMANDS] = "commands",
};

/* The number behind name in a file of /proc/PID; 0 = not there. name "" = the first of the file. */
static double number_in(const char *path, const char *name)
{
    char line[300];
    double sum = 0;
    size_t length = strlen(name);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, length) == 0) {
            sscanf(line + length, "%lf", &sum);
            break;
        }
    if (file)
        fclose(file);
    return sum;
}

static size_t count_entries(const char *path)
{
    size_t count = 0;
    DIR *directory = opendir(path);
    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count > 2 ? count - 2 : 0;
}

static void add_thread(const char *path, struct cost *cost)
{
    char file[160];
    snprintf(file, sizeof file, "%s/schedstat", path);
    cost->cpu_us += number_in(file, "") / 1000;
    snprintf(file, sizeof file, "%s/status", path);
    cost->switches += number_in(file, "voluntary_ctxt_switches:");
}

static enum cost_kind kind_below(pid_t pid)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *file = fopen(path, "r");
    if (file) {
        if (!fgets(name, sizeof name, file))
            name[0] = '\0';
        fclose(file);
    }
    name[strcspn(name, "\n")] = '\0';
    if (strcmp(name, "bwrap") == 0)
        return COST_BWRAP;
    return strcmp(name, "agent") == 0 || strcmp(name, "ws-supervisor") == 0 ? COST_AGENTS : COST_COMMANDS;
}

struct reading {
    struct cost *costs;
    bool with_memory;
};

static void add_tree(const struct reading *r, pid_t pid, enum cost_kind kind);

static void add_children(const struct reading *r, const char *thread)
{
    char path[160];
    int child;
    snprintf(path, sizeof path, "%s/children", thread);
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%d", &child) == 1)
        add_tree(r, child, kind_below(child));
    if (file)
        fclose(file);
}

static void add_tree(const struct reading *r, pid_t pid, enum cost_kind kind)
{
    char path[128];
    struct cost *cost = &r->costs[kind];
    cost->processes++;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    cost->descriptors += count_entries(path);
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    if (r->with_memory)
        cost->pss_kib += number_in(path, "Pss:");
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.16s", pid, entry->d_name);
        add_thread(path, cost);
        if (kind >= COST_KEEPERS)
            add_children(r, path);
    }
    if (tasks)
        closedir(tasks);
}

void costs_read(const struct instance *i, struct cost ret[static COST_KINDS], bool with_memory)
{
    static const struct {
        const char *subcommand;
        enum cost_kind kind;
    } tops[] = { { "lighttpd", COST_FRONT },
                 { "serve", COST_WORKERS },
                 { "warden", COST_WARDEN },
                 { "keep", COST_KEEPERS } };
    const struct reading r = { ret, with_memory };
    memset(ret, 0, COST_KINDS * sizeof *ret);
    for (size_t t = 0; t < N_ELEMENTS(tops); t++) {
        pid_t pids[1024];
        size_t count = instance_processes(i, tops[t].subcommand, pids, N_ELEMENTS(pids));
        for (size_t k = 0; k < count; k++)
            add_tree(&r, pids[k], tops[t].kind);
    }
}
