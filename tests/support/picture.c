/* Owns what a client knows of a tree, as a set of paths, and whether it is so. Must not know when changes
 * come. */
#include "tests/support/picture.h"

#include "lib/base/clock.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct paths {
    char *all[4096];
    size_t count;
};

static struct paths picture, tree;
bool picture_is_lost;

/* ---- sets of paths ---- */

static void forget(struct paths *paths, size_t i)
{
    free(paths->all[i]);
    paths->all[i] = paths->all[--paths->count];
}

static void clear(struct paths *paths)
{
    while (paths->count > 0)
        forget(paths, 0);
}

static void append(struct paths *paths, const char *path)
{
    if (paths->count == N_ELEMENTS(paths->all))
        ck_abort_msg("too large a tree");
    paths->all[paths->count++] = xstrdup(path);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct paths *paths)
{
    qsort(paths->all, paths->count, sizeof *paths->all, compare);
}

/* ---- what is told ---- */

static bool lies_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || path[length] == '\0');
}

static void take_away(const char *path, const char *to)
{
    for (size_t i = 0; i < picture.count;) {
        if (!lies_below(picture.all[i], path)) {
            i++;
        } else if (!to) {
            forget(&picture, i);
        } else {
            char *moved = xasprintf("%s%s", to, picture.all[i] + strlen(path));
            free(picture.all[i]);
            picture.all[i++] = moved;
        }
    }
}

static void put_in(const char *path)
{
    for (size_t i = 0; i < picture.count; i++)
        if (!strcmp(picture.all[i], path))
            return;
    append(&picture, path);
}

static void redraw(const struct change *c)
{
    _cleanup_free_ char *path = xstrndup(c->path, c->length);
    _cleanup_free_ char *other = c->flags & CHANGE_MOVED ? xstrndup(c->other, c->other_length) : NULL;
    picture_is_lost |= c->type == CHANGE_OVERFLOW;
    if (c->type == CHANGE_REMOVE && other) {
        take_away(other, NULL); /* what it takes the place of */
        take_away(path, other);
    } else if (c->type == CHANGE_REMOVE) {
        take_away(path, NULL);
    } else if (c->type == CHANGE_CREATE) {
        put_in(path);
    }
}

void picture_redraw(struct watcher *w)
{
    const struct change *c;
    while ((c = pending_next(watcher_pending(w), clock_boottime_us())) != NULL) {
        redraw(c);
        pending_done(watcher_pending(w), clock_boottime_us());
    }
}

void picture_free(void)
{
    clear(&picture);
    clear(&tree);
}

/* ---- what is there ---- */

static int note(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    if (ftw->level > 0)
        append(&tree, path + 2);
    return 0;
}

static int make_probe(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    char probe[PATH_MAX];
    (void)stat;
    (void)ftw;
    snprintf(probe, sizeof probe, "%s/probe", path);
    if (type == FTW_D)
        close(open(probe, O_CREAT | O_WRONLY, 0644));
    return 0;
}

static int remove_probe(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    if (type == FTW_F && !strcmp(path + ftw->base, "probe"))
        unlink(path);
    return 0;
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)stat;
    (void)type;
    return ftw->level ? remove(path) : 0;
}

static void visit(int (*what)(const char *, const struct stat *, int, struct FTW *), int flags)
{
    ck_assert_int_eq(nftw(".", what, 32, FTW_PHYS | flags), 0);
}

static void draw(void)
{
    clear(&tree);
    visit(note, 0);
    sort(&tree);
}

static const char *path_at(const struct paths *paths, size_t i)
{
    return i < paths->count ? paths->all[i] : "nothing";
}

void picture_check(void)
{
    draw();
    sort(&picture);
    for (size_t i = 0; i < tree.count || i < picture.count; i++)
        if (strcmp(path_at(&tree, i), path_at(&picture, i)) != 0) /* each assertion is written to a file */
            ck_abort_msg("%s is there, %s was told", path_at(&tree, i), path_at(&picture, i));
}

static void probe_all_folders(picture_wait wait)
{
    visit(make_probe, 0);
    wait();
    picture_check();
    visit(remove_probe, 0);
    wait();
    picture_check();
}

bool picture_check_all(picture_wait wait)
{
    bool is_told = !picture_is_lost;
    if (!is_told) {
        clear(&picture);
        draw();
        for (size_t i = 0; i < tree.count; i++)
            append(&picture, tree.all[i]);
    }
    picture_check();
    picture_is_lost = false;
    probe_all_folders(wait);
    ck_assert(!picture_is_lost);
    return is_told;
}

void picture_remove_all(picture_wait wait)
{
    visit(remove_one, FTW_DEPTH);
    wait();
    picture_check();
}

/* ---- changes ---- */

void picture_random_path(char path[64], unsigned *seed)
{
    size_t at = 0;
    for (int depth = 1 + rand_r(seed) % 4; depth > 0; depth--)
        at += (size_t)snprintf(path + at, 64 - at, "%s%c", at ? "/" : "", 'a' + rand_r(seed) % 3);
}

static void make_folder(const char *path, const char *other)
{
    (void)other;
    mkdir(path, 0755);
}

static void make_file(const char *path, const char *other)
{
    (void)other;
    close(open(path, O_CREAT | O_WRONLY, 0644));
}

static void remove_file(const char *path, const char *other)
{
    (void)other;
    unlink(path);
}

static void remove_folder(const char *path, const char *other)
{
    (void)other;
    rmdir(path);
}

static void move(const char *path, const char *other)
{
    rename(path, other);
}

static void exchange(const char *path, const char *other)
{
    renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_EXCHANGE);
}

/* The last one rarely, since an overflow tells of most of them. */
void picture_change_something(unsigned *seed)
{
    enum { RARELY = 8 };
    static void (*const changes[])(const char *, const char *) = { make_folder,   make_folder, make_folder,
                                                                   make_file,     make_file,   remove_file,
                                                                   remove_folder, move,        exchange };
    char one[64], other[64];
    picture_random_path(one, seed);
    picture_random_path(other, seed);
    unsigned which = (unsigned)rand_r(seed) % (RARELY * N_ELEMENTS(changes));
    changes[which < N_ELEMENTS(changes) ? which : which % (N_ELEMENTS(changes) - 1)](one, other);
}
