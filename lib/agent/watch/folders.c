/* Owns the tree of watched folders and its two indexes. Knows the kernel only as who gives numbers and is
 * told which of them are done with. */
#include "lib/agent/watch/folders.h"

#include "lib/base/memory.h"

#include <search.h>
#include <string.h>

struct folders {
    struct inbox *inbox;
    void *by_wd, *by_name; /* tsearch(3) */
};

static int compare_wd(const void *a, const void *b)
{
    const struct folder *one = a, *other = b;
    return one->wd < other->wd ? -1 : one->wd > other->wd;
}

static int compare_name(const void *a, const void *b)
{
    const struct folder *one = a, *other = b;
    if (one->parent != other->parent)
        return (uintptr_t)one->parent < (uintptr_t)other->parent ? -1 : 1;
    return strcmp(one->name, other->name);
}

struct folders *folders_new(struct inbox *inbox)
{
    struct folders *f = xcalloc(1, sizeof *f);
    f->inbox = inbox;
    return f;
}

static void forget_nothing(void *folder)
{
    (void)folder;
}

static void free_folder(void *at)
{
    struct folder *folder = at;
    free((char *)folder->leads);
    free(folder->name);
    free(folder);
}

void folders_free(struct folders *f)
{
    if (!f)
        return;
    tdestroy(f->by_name, forget_nothing);
    tdestroy(f->by_wd, free_folder);
    free(f);
}

static struct folder *look_up(void *const *tree, const struct folder *like,
                              int (*compare)(const void *, const void *))
{
    void *found = tfind(like, tree, compare);
    return found ? *(struct folder **)found : NULL;
}

struct folder *folders_find(const struct folders *f, int wd)
{
    const struct folder like = { .wd = wd };
    return look_up(&f->by_wd, &like, compare_wd);
}

struct folder *folders_child(const struct folders *f, const struct folder *parent, const char *name)
{
    const struct folder like = { .parent = (struct folder *)parent, .name = (char *)name };
    return look_up(&f->by_name, &like, compare_name);
}

/* ---- places ---- */

static void insert(void **tree, struct folder *folder, int (*compare)(const void *, const void *))
{
    if (!tsearch(folder, tree, compare))
        abort();
}

static void leave_place(struct folders *f, struct folder *folder)
{
    tdelete(folder, &f->by_name, compare_name);
    if (folder->parent)
        LIST_REMOVE(folder, in_parent);
    folder->parent = NULL;
}

/* What was known under this name is not there any more. */
static void take_place(struct folders *f, struct folder *folder, struct folder *parent, const char *name)
{
    struct folder *old = folders_child(f, parent, name);
    if (old && old != folder)
        folders_drop(f, old, false);
    char *copy = xstrdup(name);
    free(folder->name);
    folder->name = copy;
    folder->parent = parent;
    if (parent)
        LIST_INSERT_HEAD(&parent->children, folder, in_parent);
    insert(&f->by_name, folder, compare_name);
}

bool folders_is_below(const struct folder *folder, const struct folder *other)
{
    for (; folder; folder = folder->parent)
        if (folder == other)
            return true;
    return false;
}

void folders_move(struct folders *f, struct folder *folder, struct folder *parent, const char *name)
{
    if (folders_is_below(parent, folder))
        return;
    leave_place(f, folder);
    take_place(f, folder, parent, name);
}

struct folder *folders_put(struct folders *f, struct folder *parent, const char *name, int wd)
{
    struct folder *folder = folders_find(f, wd);
    if (folder) {
        if (folder->parent != parent || strcmp(folder->name, name) != 0)
            folders_move(f, folder, parent, name);
        return folder;
    }
    folder = xcalloc(1, sizeof *folder);
    folder->wd = wd;
    LIST_INIT(&folder->children);
    insert(&f->by_wd, folder, compare_wd);
    take_place(f, folder, parent, name);
    return folder;
}

void folders_drop(struct folders *f, struct folder *folder, bool is_given_up)
{
    while (!LIST_EMPTY(&folder->children))
        folders_drop(f, LIST_FIRST(&folder->children), false);
    leave_place(f, folder);
    tdelete(folder, &f->by_wd, compare_wd);
    if (!is_given_up)
        inbox_unwatch(f->inbox, folder->wd);
    free_folder(folder);
}

void folders_sweep(struct folders *f, struct folder *folder, unsigned round)
{
    struct folder *next;
    for (struct folder *child = LIST_FIRST(&folder->children); child; child = next) {
        next = LIST_NEXT(child, in_parent);
        if (child->round == round)
            folders_sweep(f, child, round);
        else
            folders_drop(f, child, false);
    }
}

/* ---- paths ---- */

static void append_name(struct buffer *path, const char *name)
{
    if (!strcmp(name, "."))
        return;
    if (path->length)
        buffer_append_char(path, '/');
    buffer_append_text(path, name);
}

static void append_folder(const struct folder *folder, struct buffer *path)
{
    if (folder->parent)
        append_folder(folder->parent, path);
    append_name(path, folder->name);
}

void folders_path(const struct folder *folder, const char *name, struct buffer *ret)
{
    ret->length = 0;
    append_folder(folder, ret);
    append_name(ret, name);
    if (!ret->length)
        buffer_append_char(ret, '.');
}
