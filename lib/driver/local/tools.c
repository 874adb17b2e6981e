/* Owns the list of programs that a sandbox should have, and finds them: in the host's /usr, which every
 * sandbox sees, or in the state directory's folder `tools`, which is bound read-only beside it. The host's
 * own come first: who installed one there wants that. It executes nothing. */
#include "lib/driver/local/tools.h"

#include "lib/base/memory.h"

#include <sys/stat.h>
#include <unistd.h>

const struct tool tools[] = {
    { "uv", NULL, NULL },           { "uvx", NULL, NULL },
    { "python3", NULL, "python3" }, { "python", "python3", "python3" },
    { "git", NULL, "git" },         { "git-lfs", NULL, "git-lfs" },
    { "jq", NULL, "jq" },           { "curl", NULL, "curl" },
    { "wget", NULL, "wget" },       { "rg", NULL, "ripgrep" },
    { "fd", "fdfind", "fd-find" },  { "patch", NULL, "patch" },
    { "tree", NULL, "tree" },       { "zip", NULL, "zip" },
    { "unzip", NULL, "unzip" },
};
const size_t tool_count = N_ELEMENTS(tools);

bool tools_is_listed(const char *name)
{
    for (size_t i = 0; i < tool_count; i++)
        if (!strcmp(tools[i].name, name))
            return true;
    return false;
}

static char *find_in(const char *folder, const char *name)
{
    struct stat status;
    _cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
    /* For everybody, not for this process alone: it may be root, and the sandbox is not. */
    bool runs = !stat(path, &status) && S_ISREG(status.st_mode) && (status.st_mode & S_IXOTH);
    return runs ? STEAL(path) : NULL;
}

char *tools_find_in_usr(const char *name)
{
    static const char *const folders[] = { "/usr/local/bin", "/usr/bin" };
    char *path = NULL;
    for (size_t i = 0; i < N_ELEMENTS(folders) && !path; i++)
        path = find_in(folders[i], name);
    return path;
}

char *tools_folder(const struct config *config)
{
    struct stat status;
    _cleanup_free_ char *path = config_path(config, "tools", NULL);
    return !lstat(path, &status) && S_ISDIR(status.st_mode) ? STEAL(path) : NULL;
}

char *tools_find(const struct config *config, const struct tool *tool)
{
    _cleanup_free_ char *folder = tools_folder(config);
    char *path = tools_find_in_usr(tool->name);
    if (!path && tool->host_name)
        path = tools_find_in_usr(tool->host_name);
    return path || !folder ? path : find_in(folder, tool->name);
}

json_t *tools_missing(const struct config *config)
{
    json_t *names = json_array();
    for (size_t i = 0; i < tool_count; i++) {
        _cleanup_free_ char *path = tools_find(config, &tools[i]);
        if (!path)
            json_array_append_new(names, json_string(tools[i].name));
    }
    return names;
}
