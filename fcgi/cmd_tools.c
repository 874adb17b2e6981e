/* Owns the operator's command for programs that every workspace has: copies them into the state directory's
 * folder `tools`. What they are for is not its business, and it executes none of them. */
#include "fcgi/commands.h"

#include "fcgi/state_directory.h"
#include "lib/base/io.h"
#include "lib/driver/local/tools.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FILES_MAX 64

/* A file's content, as it was when it was opened: before this process became somebody who may not read it. */
struct source {
    const char *name; /* the last part of its path */
    void *data;
    size_t length;
    bool executable; /* by anybody */
};

static void source_clear(struct source *s)
{
    if (s->data)
        munmap(s->data, s->length);
}

static int map_fd(int fd, struct source *ret)
{
    struct stat status;
    if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size <= 0)
        return -1;
    void *data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return -1;
    ret->data = data;
    ret->length = (size_t)status.st_size;
    ret->executable = status.st_mode & 0111;
    return 0;
}

static int open_source(const char *path, struct source *ret, struct error *err)
{
    const char *slash = strrchr(path, '/');
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ret->name = slash ? slash + 1 : path;
    if (*ret->name == '\0' || *ret->name == '.')
        return error_set(err, ERROR_INVALID, "%s is no name for a program", path);
    if (fd < 0)
        return error_errno(err, ERROR_INVALID, errno, "%s", path);
    return map_fd(fd, ret) ? error_set(err, ERROR_INVALID, "%s is no file, or an empty one", path) : 0;
}

/* Written anew each time, tens of megabytes would wait for the disk at every start. */
static bool is_there(int folder, const struct source *s)
{
    struct source there = { .name = s->name };
    struct stat status;
    _cleanup_close_ int fd = openat(folder, s->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (map_fd(fd, &there))
        return false;
    bool same = there.length == s->length && !memcmp(there.data, s->data, s->length) && !fstat(fd, &status) &&
                (status.st_mode & 07777) == 0755;
    source_clear(&there);
    return same;
}

static int open_folder(const struct config *config, bool make, bool *ret_new, struct error *err)
{
    _cleanup_free_ char *path = config_path(config, "tools", NULL);
    if (state_directory_enter(config, make, err) < 0)
        return -1;
    *ret_new = access(path, F_OK) < 0;
    if (io_ensure_directory(path, 0755, err) < 0)
        return -1;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* Whatever the umask was: workspaces have users of their own. */
    if (fd < 0 || fchmod(fd, 0755) < 0)
        return error_errno(err, ERROR_INTERNAL, errno, "%s", path);
    return STEAL_FD(fd);
}

static int add_one(const struct config *config, int folder, const struct source *s, struct error *err)
{
    bool there = is_there(folder, s);
    if (!there && io_replace_file(folder, s->name, s->data, s->length, 0755, err) < 0)
        return -1;
    printf("%s %s %s/tools%s\n", s->name, there ? "is already in" : "added to", config->state_dir,
           s->executable ? "" : ", as a program (mode 0755): the file given may not be executed");
    return 0;
}

/* A sandbox sees what is put into the folder, but not a folder that was made after it. */
static int add(const struct config *config, bool make, char **paths, int count, struct error *err)
{
    struct source sources[FILES_MAX] = { 0 };
    bool is_new = false;
    int result = 0;
    for (int i = 0; i < count && !result; i++)
        result = open_source(paths[i], &sources[i], err);
    _cleanup_close_ int folder = result ? -1 : open_folder(config, make, &is_new, err);
    for (int i = 0; i < count && folder >= 0 && !result; i++)
        result = add_one(config, folder, &sources[i], err);
    for (int i = 0; i < count; i++)
        source_clear(&sources[i]);
    if (folder < 0 || result)
        return -1;
    puts(is_new ? "workspaces that run now see it after a stop and a start"
                : "every workspace sees it at once");
    return 0;
}

/* ---- list ---- */

static void list(const struct config *config)
{
    for (size_t i = 0; i < tool_count; i++) {
        _cleanup_free_ char *path = tools_find(config, &tools[i]);
        printf("%-8s %s\n", tools[i].name, path ? path : "-");
    }
    _cleanup_free_ char *folder = tools_folder(config);
    DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (*entry->d_name != '.' && !tools_is_listed(entry->d_name))
            printf("%-8s %s/%s\n", entry->d_name, folder, entry->d_name);
    if (dir)
        closedir(dir);
}

static int wrong_use(int argc, char **argv)
{
    bool known = argc > 1 && (!strcmp(argv[1], "add") || !strcmp(argv[1], "list"));
    if (known && argc - 2 > FILES_MAX) {
        fprintf(stderr, "tools: not more than %d files at once\n", FILES_MAX);
        return COMMAND_WRONG_USE;
    }
    return command_wrong_use(argv[0], known ? argv[2] : argv[1]);
}

int cmd_tools(const struct config *config, int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    bool lists = argc == 2 && !strcmp(argv[1], "list"), makes = argc > 2 && !strcmp(argv[2], "--new");
    int first = makes ? 3 : 2;
    bool adds = argc > first && argc - first <= FILES_MAX && !strcmp(argv[1], "add");
    if (!lists && !adds)
        return wrong_use(argc, argv);
    if (lists)
        list(config);
    else if (add(config, makes, argv + first, argc - first, &err) < 0) {
        fprintf(stderr, "tools: %s\n", err.message);
        return 1;
    }
    return 0;
}
