/* Finds out which Python packages workspaces have brought for themselves. What it reads lies in homes of
 * workspaces and is written by anybody: names of directories alone are taken, of the form that packages have,
 * so many at most, by handles that follow no link. No file is opened.
 */
#include "lib/warden/wishes.h"

#include "lib/warden/allowance.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#define NAME_LIMIT 100

/* ---- names ---- */

static bool is_word(const char *text, size_t length, const char *also)
{
    if (length == 0 || length > NAME_LIMIT || !isalnum((unsigned char)*text))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr(also, text[i]))
            return false;
    return true;
}

/* "2.3.1-py3-none-any.http" of the folder "iniconfig" is iniconfig==2.3.1. */
static char *package_of(const char *name, const char *file)
{
    size_t version = strcspn(file, "-"), length = strlen(file);
    bool complete = file[version] == '-' && length > 5 && !strcmp(file + length - 5, ".http");
    if (!complete || !is_word(name, strlen(name), "._-") || !is_word(file, version, "._+!"))
        return NULL;
    return xasprintf("%s==%.*s", name, (int)version, file);
}

/* ---- folders ---- */

int wishes_open_below(int at, const char *path)
{
    struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                            .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
    return (int)syscall(SYS_openat2, at, path, &how, sizeof(how));
}

struct walk {
    json_t *packages;    /* a set: names of members */
    const json_t *known; /* not these; may be NULL */
    size_t limit, entries;
};

typedef void visit_entry(struct walk *walk, int folder, const char *parent, const char *name);

/* Takes the descriptor. */
static void each_entry(struct walk *walk, int fd, const char *parent, visit_entry *visit)
{
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL && fd >= 0)
        close(fd);
    for (struct dirent *entry; dir && walk->entries < WISHES_ENTRIES_LIMIT && (entry = readdir(dir));) {
        walk->entries++;
        if (entry->d_name[0] != '.')
            visit(walk, dirfd(dir), parent, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

static void visit_wheel(struct walk *walk, int folder, const char *parent, const char *name)
{
    (void)folder;
    _cleanup_free_ char *package = package_of(parent, name);
    if (package && !json_object_get(walk->known, package) && json_object_size(walk->packages) < walk->limit)
        json_object_set_new(walk->packages, package, json_true());
}

static void visit_package(struct walk *walk, int folder, const char *parent, const char *name)
{
    (void)parent;
    each_entry(walk, wishes_open_below(folder, name), name, visit_wheel);
}

static void visit_bucket(struct walk *walk, int folder, const char *parent, const char *name)
{
    if (strncmp(name, "wheels-v", 8) != 0 || strlen(name) > 16)
        return;
    _cleanup_free_ char *path = xasprintf("%s/pypi", name);
    each_entry(walk, wishes_open_below(folder, path), parent, visit_package);
}

void wishes_read_cache(int at, const char *path, const json_t *known, size_t limit, json_t *packages)
{
    struct walk walk = { .packages = packages, .known = known, .limit = limit };
    each_entry(&walk, wishes_open_below(at, path), "", visit_bucket);
}

/* ---- who wishes ---- */

/* The principal of a workspace. Who has no network has no wishes: what the gateway fetches, and what it asks an
 * index for, could carry something out. NULL = nobody's. */
static char *find_principal(const struct chore *c, const char *id)
{
    json_auto_t *record = NULL;
    if (!id_is_valid(ID_WORKSPACE, id) || state_get_workspace(c->state, id, &record, NULL) < 0 ||
        json_is_true(json_object_get(json_object_get(record, "spec"), "block_network")))
        return NULL;
    const char *owner = json_string_value(json_object_get(record, "owner"));
    return owner ? xstrdup(owner) : NULL;
}

/* Adds it where there is none. */
static struct wisher *get(struct wisher **first, const char *principal)
{
    for (struct wisher *w = *first; w; w = w->next)
        if (!strcmp(w->principal, principal))
            return w;
    struct wisher *w = xcalloc(1, sizeof(*w));
    *w = (struct wisher){ .next = *first, .principal = xstrdup(principal), .names = json_object() };
    return *first = w;
}

struct wisher *wishes_read(const struct chore *c, const json_t *known, const json_t *allowance)
{
    struct wisher *first = NULL;
    _cleanup_free_ char *path = config_path(c->config, "workspaces", NULL);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        _cleanup_free_ char *principal = find_principal(c, entry->d_name);
        size_t left = principal ? allowance_left(allowance, principal) : 0;
        if (left == 0)
            continue;
        _cleanup_free_ char *cache = xasprintf("%s/" WISHES_CACHE, entry->d_name);
        wishes_read_cache(dirfd(dir), cache, known, left < WISHES_AT_A_TIME ? left : WISHES_AT_A_TIME,
                          get(&first, principal)->names);
    }
    if (dir)
        closedir(dir);
    return first;
}

void wishes_clear(struct wisher **first)
{
    for (struct wisher *w = *first, *next; w; w = next) {
        next = w->next;
        json_decref(w->names);
        free(w->principal);
        free(w);
    }
    *first = NULL;
}
