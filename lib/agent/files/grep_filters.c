/* Owns what ripgrep is told of which files to look at, and the decision on each, which is ours: ripgrep knows
 * a part of our patterns only, and .gitignore. */
#include "lib/agent/files/grep.h"
#include "lib/agent/search/names.h"
#include "lib/agent/search/order.h"

#define ALWAYS_LEFT "node_modules"

void grep_argument(struct grep_arguments *a, const char *text)
{
    if (a->count + 1 >= a->capacity) {
        a->capacity = a->capacity ? 2 * a->capacity : 64;
        a->list = xreallocarray(a->list, a->capacity, sizeof *a->list);
    }
    a->list[a->count++] = text;
    a->list[a->count] = NULL;
}

static void add_owned(struct grep_arguments *a, const char *option, char *text)
{
    a->owned = xreallocarray(a->owned, a->n_owned + 1, sizeof *a->owned);
    a->owned[a->n_owned++] = text;
    grep_argument(a, option);
    grep_argument(a, text);
}

void grep_arguments_clear(struct grep_arguments *a)
{
    for (size_t i = 0; i < a->n_owned; i++)
        free(a->owned[i]);
    free(a->owned);
    free(a->list);
    *a = (struct grep_arguments){ 0 };
}

static void add_ignores(struct grep_arguments *a, const struct grep *grep)
{
    if (grep->hidden)
        grep_argument(a, "--hidden");
    if (file_call_flag(grep->call, "gitignore")) {
        grep_argument(a, "--no-ignore-global");
        grep_argument(a, "--no-require-git");
        grep_argument(a, "--no-ignore-messages");
    } else {
        grep_argument(a, "--no-ignore");
    }
    if (!file_call_flag(grep->call, "default_ignores"))
        return;
    for (const char *const *name = names_hidden; *name; name++)
        add_owned(a, "--glob", xasprintf("!%s/", *name));
    add_owned(a, "--glob", xstrdup("!" ALWAYS_LEFT "/"));
}

/* Only where each of the patterns can be said: a file must match one of them. */
static void add_includes(struct grep_arguments *a, const struct grep *grep)
{
    const json_t *list = json_object_get(grep->call->request, "include_patterns"), *item;
    size_t index;
    json_array_foreach(list, index, item) {
        _cleanup_free_ char *name = glob_for_names(json_string_value(item));
        if (!name)
            return;
    }
    json_array_foreach(list, index, item) {
        _cleanup_free_ char *name = glob_for_names(json_string_value(item));
        add_owned(a, "--type-add", xasprintf("wanted:%s", name));
    }
    if (json_array_size(list) == 0)
        return;
    grep_argument(a, "--type");
    grep_argument(a, "wanted");
}

/* Patterns begin at the workspace's folder, ripgrep's where it works. */
static void add_excludes(struct grep_arguments *a, const struct grep *grep)
{
    const json_t *list = json_object_get(grep->call->request, "exclude_patterns"), *item;
    size_t index;
    json_array_foreach(list, index, item) {
        char *glob = glob_for_exclude(json_string_value(item));
        if (glob && (!*grep->prefix || glob[1] != '/'))
            add_owned(a, "--glob", glob);
        else
            free(glob);
    }
}

void grep_arguments_begin(struct grep_arguments *a)
{
    static const char *const always[] = { "rg", "--no-config", "--no-follow", "--color=never" };
    for (size_t i = 0; i < N_ELEMENTS(always); i++)
        grep_argument(a, always[i]);
}

void grep_arguments_filter(struct grep_arguments *a, const struct grep *grep)
{
    add_ignores(a, grep);
    add_includes(a, grep);
    add_excludes(a, grep);
}

/* ---- the decision ---- */

static bool has_hidden_name(const char *path)
{
    return *path == '.' || strstr(path, "/.") != NULL;
}

/* Not in an earlier page as a whole. */
static bool is_still_to_come(const struct grep *grep, const char *path)
{
    int order = grep->rules.at_path ? order_of_paths(path, grep->rules.at_path) : 1;
    return order > 0 || (order == 0 && grep->rules.at_line != GREP_WHOLE_FILE);
}

bool grep_wants(const struct grep *grep, const char *name)
{
    if (strncmp(name, "./", 2) != 0)
        return false;
    _cleanup_free_ char *path = xasprintf("%s%s", grep->prefix, name + 2);
    size_t length = strlen(path);
    if (!is_still_to_come(grep, path))
        return false;
    if (grep->only)
        return true;
    if (!grep->hidden && has_hidden_name(name + 2))
        return false;
    if (!glob_is_empty(grep->include) && !glob_matches(grep->include, path, length))
        return false;
    return glob_is_empty(grep->exclude) || !glob_matches(grep->exclude, path, length);
}
