/* Reads /proc and the state directory. Keeps nothing. */
#include "tests/chaos/gauge.h"

#include "lib/base/memory.h"

#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

static double each_descriptor(pid_t pid, double (*value)(int fd_dir, const char *name))
{
    char path[64];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.')
            sum += value(dirfd(dir), entry->d_name);
    if (dir)
        closedir(dir);
    return sum;
}

static double one(int dir, const char *name)
{
    (void)dir, (void)name;
    return 1;
}

static double blocks_of_removed(int dir, const char *name)
{
    struct stat status;
    if (fstatat(dir, name, &status, 0) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 0)
        return 0;
    return (double)status.st_blocks / 2;
}

double gauge_descriptors(pid_t pid)
{
    return each_descriptor(pid, one);
}

double gauge_deleted_kib(pid_t pid)
{
    return each_descriptor(pid, blocks_of_removed);
}

double gauge_file_kib(const char *format, ...)
{
    char path[300];
    struct stat status;
    va_list list;
    va_start(list, format);
    vsnprintf(path, sizeof path, format, list);
    va_end(list);
    return stat(path, &status) == 0 ? (double)status.st_blocks / 2 : 0;
}

double gauge_entries(const char *format, ...)
{
    char path[300];
    double count = 0;
    va_list list;
    va_start(list, format);
    vsnprintf(path, sizeof path, format, list);
    va_end(list);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

static bool has_word(pid_t pid, const char *word)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text, file) : 0;
    if (file)
        fclose(file);
    return memmem(text, length, word, strlen(word)) != NULL;
}

double gauge_mean(const struct instance *i, const char *subcommand, const char *with, double (*gauge)(pid_t))
{
    pid_t pids[512];
    size_t count = instance_processes(i, subcommand, pids, N_ELEMENTS(pids)), used = 0;
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        if (has_word(pids[k], with) && !has_word(pids[k], "--chore")) {
            sum += gauge(pids[k]);
            used++;
        }
    return used ? sum / (double)used : (double)NAN;
}
