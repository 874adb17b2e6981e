/* Finds the hierarchies (proc_pid_mountinfo(5), cgroups(7)) and what of them this process may use. The base
 * is the process's own group. Version 2 lets processes sit in leaves only: a group that was delegated to us
 * (systemd: Delegate=yes, told by an extended attribute) has its processes moved into a leaf "gateway", which
 * from then on stands for its parent. Root without a delegation uses the top. */
#include "lib/driver/local/place.h"

#include "lib/base/buffer.h"
#include "lib/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define GATEWAY   "/gateway"
#define PATH_SIZE 512

const char *const place_controllers[CGROUP_CONTROLLERS] = { "memory", "cpu", "pids" };

/* ---- files ---- */

static bool has_word(const char *list, const char *word, const char *separators)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || strchr(separators, at[-1])) && (!at[length] || strchr(separators, at[length])))
            return true;
    return false;
}

static bool read_in(const char *directory, const char *file, struct buffer *ret)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", directory, file);
    return !io_read_file(AT_FDCWD, path, 1 << 20, ret, NULL) && buffer_text(ret);
}

static bool file_has_word(const char *directory, const char *file, const char *word)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    return read_in(directory, file, &text) && has_word(text.data, word, " \n");
}

static int write_in(const char *directory, const char *file, const char *text)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", directory, file);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* ---- hierarchies ---- */

struct hierarchy {
    char point[PATH_SIZE], root[PATH_SIZE]; /* where it is mounted, and what of it */
    char own[PATH_SIZE];                    /* this process's group in it */
};

/* Fields 4 and 5, and behind " - " the type and its options. controller NULL = version 2. */
static bool parse_mount(const char *line, const char *controller, struct hierarchy *ret)
{
    char type[32], options[256];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(rest, " - %31s %*s %255s", type, options) != 2 ||
        sscanf(line, "%*s %*s %*s %511s %511s", ret->root, ret->point) != 2)
        return false;
    return controller ? !strcmp(type, "cgroup") && has_word(options, controller, ",")
                      : !strcmp(type, "cgroup2");
}

/* "4:memory:/x"; version 2's is "0::/x". */
static bool parse_own(const char *line, const char *controller, struct hierarchy *ret)
{
    char controllers[256] = "";
    const char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
    if (!second || (size_t)(second - first) > sizeof(controllers))
        return false;
    memcpy(controllers, first + 1, (size_t)(second - first - 1));
    if (controller ? !has_word(controllers, controller, ",") : *controllers)
        return false;
    return snprintf(ret->own, sizeof(ret->own), "%s", second + 1) < (int)sizeof(ret->own);
}

typedef bool parse_line(const char *line, const char *controller, struct hierarchy *ret);

static bool find_line(const char *text, parse_line *parse, const char *controller, struct hierarchy *ret)
{
    _cleanup_free_ char *copy = xstrdup(text);
    char *save = NULL;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (parse(line, controller, ret))
            return true;
    return false;
}

struct tables {
    struct buffer mounts, groups;
};

static bool find_hierarchy(const struct tables *t, const char *controller, struct hierarchy *ret)
{
    return find_line(t->mounts.data, parse_mount, controller, ret) &&
           find_line(t->groups.data, parse_own, controller, ret);
}

static char *own_directory(const struct hierarchy *h)
{
    size_t skip = strcmp(h->root, "/") && !strncmp(h->own, h->root, strlen(h->root)) ? strlen(h->root) : 0;
    return xasprintf("%s%s", h->point, strcmp(h->own + skip, "/") ? h->own + skip : "");
}

/* ---- version 2 ---- */

/* The top may have processes beside its children; another group must have none, or enabling cpu and pids
 * would make it a threaded one, whose children take no processes. The top has no file of its type. */
static bool may_have_children(const char *base)
{
    _cleanup_buffer_ struct buffer type = BUFFER_INIT, processes = BUFFER_INIT;
    if (access(base, W_OK))
        return false;
    if (!read_in(base, "cgroup.type", &type))
        return true;
    return !strcmp(type.data, "domain\n") && read_in(base, "cgroup.procs", &processes) && !processes.length;
}

static bool enable(const char *base, struct place *p)
{
    bool any = false, possible = may_have_children(base);
    char text[16];
    for (int i = 0; i < CGROUP_CONTROLLERS && possible; i++) {
        const char *name = place_controllers[i];
        snprintf(text, sizeof(text), "+%s", name);
        p->in_unified[i] = file_has_word(base, "cgroup.controllers", name) &&
                           (file_has_word(base, "cgroup.subtree_control", name) ||
                            !write_in(base, "cgroup.subtree_control", text));
        any |= p->in_unified[i];
    }
    return any;
}

static bool is_delegated(const char *base)
{
    static const char *const names[] = { "user.delegate", "trusted.delegate" };
    char value[8] = "";
    for (size_t i = 0; i < N_ELEMENTS(names); i++)
        if (getxattr(base, names[i], value, sizeof(value) - 1) > 0 && *value == '1')
            return true;
    return false;
}

/* All that runs in a delegated group is ours. */
static void move_into_leaf(const char *base)
{
    _cleanup_buffer_ struct buffer processes = BUFFER_INIT;
    _cleanup_free_ char *leaf = xasprintf("%s" GATEWAY, base);
    if ((mkdir(leaf, 0755) && errno != EEXIST) || !read_in(base, "cgroup.procs", &processes))
        return;
    char *save = NULL;
    for (char *pid = strtok_r(processes.data, "\n", &save); pid; pid = strtok_r(NULL, "\n", &save))
        write_in(leaf, "cgroup.procs", pid);
}

static void find_unified(const struct tables *t, struct place *ret)
{
    struct hierarchy h;
    if (!find_hierarchy(t, NULL, &h))
        return;
    _cleanup_free_ char *base = own_directory(&h);
    char *leaf = strrchr(base, '/');
    if (leaf && !strcmp(leaf, GATEWAY))
        *leaf = '\0';
    bool usable = enable(base, ret);
    if (!usable && is_delegated(base)) {
        move_into_leaf(base);
        usable = enable(base, ret);
    }
    if (usable)
        ret->unified = STEAL(base);
    else if (geteuid() == 0 && !strcmp(h.root, "/") && enable(h.point, ret))
        ret->unified = xstrdup(h.point);
}

/* ---- all ---- */

void place_find(struct place *ret)
{
    struct tables t = { BUFFER_INIT, BUFFER_INIT };
    *ret = (struct place){ 0 };
    if (read_in("/proc/self", "mountinfo", &t.mounts) && read_in("/proc/self", "cgroup", &t.groups)) {
        find_unified(&t, ret);
        for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
            struct hierarchy h;
            if (ret->in_unified[i] || !find_hierarchy(&t, place_controllers[i], &h))
                continue;
            _cleanup_free_ char *base = own_directory(&h);
            if (!access(base, W_OK))
                ret->separate[i] = STEAL(base);
        }
    }
    buffer_free(&t.mounts);
    buffer_free(&t.groups);
}

void place_clear(struct place *p)
{
    free(p->unified);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        free(p->separate[i]);
    *p = (struct place){ 0 };
}

const char *place_of(const struct place *p, enum cgroup_controller controller, int *ret_version)
{
    *ret_version = p->in_unified[controller] ? 2 : p->separate[controller] ? 1 : 0;
    return p->in_unified[controller] ? p->unified : p->separate[controller];
}
