/* Owns asking ripgrep for the names of the files to search, which knows .gitignore, and matching them with
 * our own patterns: what ripgrep is told of those only saves it work. */
#include "lib/agent/files/grep.h"
#include "lib/agent/search/names.h"
#include "lib/agent/search/order.h"

#include <stdio.h>

#define NAMES_READ  (256u << 10)
#define PATH_MOST   (16u << 10) /* a longer one is none */
#define ALWAYS_LEFT "node_modules"

struct arguments {
    const char *list[GREP_ARGUMENTS_MAX + 1];
    size_t count;
    char *owned[GREP_ARGUMENTS_MAX];
    size_t n_owned;
};

static void add(struct arguments *a, const char *text)
{
    if (a->count < GREP_ARGUMENTS_MAX)
        a->list[a->count++] = text;
}

static void add_owned(struct arguments *a, const char *option, char *text)
{
    if (a->count + 16 > GREP_ARGUMENTS_MAX) { /* it saves work, no more */
        free(text);
        return;
    }
    a->owned[a->n_owned++] = text;
    add(a, option);
    add(a, text);
}

static void arguments_clear(struct arguments *a)
{
    for (size_t i = 0; i < a->n_owned; i++)
        free(a->owned[i]);
}

static void add_ignores(struct arguments *a, const struct grep *grep)
{
    if (file_call_flag(grep->call, "hidden"))
        add(a, "--hidden");
    if (file_call_flag(grep->call, "gitignore")) {
        add(a, "--no-ignore-global");
        add(a, "--no-require-git");
        add(a, "--no-ignore-messages");
    } else {
        add(a, "--no-ignore");
    }
    if (!file_call_flag(grep->call, "default_ignores"))
        return;
    for (const char *const *name = names_hidden; *name; name++)
        add_owned(a, "--glob", xasprintf("!%s/", *name));
    add_owned(a, "--glob", xstrdup("!" ALWAYS_LEFT "/"));
}

/* Only where each of the patterns can be said: a file must match one of them. */
static void add_includes(struct arguments *a, const struct grep *grep)
{
    const json_t *list = json_object_get(grep->call->request, "include_patterns"), *item;
    size_t index, count = json_array_size(list);
    json_array_foreach(list, index, item) {
        _cleanup_free_ char *name = glob_for_names(json_string_value(item));
        if (!name)
            return;
    }
    if (count == 0 || a->count + 2 * count + 16 > GREP_ARGUMENTS_MAX)
        return;
    json_array_foreach(list, index, item) {
        _cleanup_free_ char *name = glob_for_names(json_string_value(item));
        add_owned(a, "--type-add", xasprintf("wanted:%s", name));
    }
    add(a, "--type");
    add(a, "wanted");
}

/* Patterns begin at the workspace's folder, ripgrep's where it works. */
static void add_excludes(struct arguments *a, const struct grep *grep)
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

int grep_list_begin(struct grep_list *list, struct grep *grep, struct error *err)
{
    struct arguments a = { .count = 0 };
    *list = (struct grep_list){ .grep = grep, .rg = RG_INIT };
    if (grep->only) {
        buffer_printf(&list->read, "./%s", grep->only);
        buffer_append_char(&list->read, '\0');
        list->over = true;
        return 0;
    }
    static const char *const always[] = { "rg",     "--no-config", "--files",     "--null",
                                          "--sort", "path",        "--no-follow", "--color=never" };
    for (size_t i = 0; i < N_ELEMENTS(always); i++)
        add(&a, always[i]);
    add_ignores(&a, grep);
    add_includes(&a, grep);
    add_excludes(&a, grep);
    add(&a, "--");
    add(&a, "./");
    int rc = rg_start(&list->rg, grep->call, grep->folder_fd, a.list, err);
    arguments_clear(&a);
    return rc;
}

void grep_list_clear(struct grep_list *list)
{
    rg_clear(&list->rg);
    buffer_free(&list->read);
}

/* ---- names ---- */

static bool has_hidden_name(const char *path)
{
    return *path == '.' || strstr(path, "/.") != NULL;
}

/* name: as ripgrep says it, in the folder. */
static bool is_wanted(const struct grep *grep, const char *name)
{
    if (grep->only)
        return true;
    if (strncmp(name, "./", 2) != 0 || (!grep->hidden && has_hidden_name(name + 2)))
        return false;
    _cleanup_free_ char *path = xasprintf("%s%s", grep->prefix, name + 2);
    size_t length = strlen(path);
    if (grep->rules.at_path && order_of_paths(path, grep->rules.at_path) < 0)
        return false;
    if (!glob_is_empty(grep->include) && !glob_matches(grep->include, path, length))
        return false;
    return glob_is_empty(grep->exclude) || !glob_matches(grep->exclude, path, length);
}

/* More of ripgrep's output; false: nothing came any more. */
static bool read_more(struct grep_list *list)
{
    if (list->over)
        return false;
    buffer_consume(&list->read, list->at);
    list->at = 0;
    if (list->read.length > PATH_MOST + NAMES_READ) {
        list->over = true;
        return false;
    }
    ssize_t got =
        rg_read(&list->rg, buffer_reserve(&list->read, NAMES_READ), NAMES_READ, list->grep->until_ms);
    if (got > 0) {
        list->read.length += (size_t)got;
        return true;
    }
    list->over = true;
    if (got == 0)
        rg_end(&list->rg);
    list->grep->timed_out |= got < 0;
    list->grep->unreadable += list->rg.problems;
    return false;
}

void grep_list_next(struct grep_list *list, size_t count, size_t size, struct buffer *ret)
{
    while (count > 0) {
        const char *from = list->read.data + list->at;
        size_t left = list->read.length - list->at;
        const char *end = left > 0 ? memchr(from, '\0', left) : NULL;
        if (!end && read_more(list))
            continue;
        if (!end)
            break;
        size_t length = (size_t)(end - from) + 1;
        if (is_wanted(list->grep, from)) {
            if (ret->length > 0 && ret->length + length > size)
                break;
            buffer_append(ret, from, length);
            count--;
        }
        list->at += length;
    }
}
