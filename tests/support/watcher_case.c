/* Owns the folder that a test watches, and what it is watched by. */
#include "tests/support/watcher_case.h"

#include "tests/support/picture.h"
#include "tests/support/scratch.h"

#include <check.h>
#include <fcntl.h>
#include <unistd.h>

struct path_root root;
struct instance *instance;
struct watcher *w;
struct glob *excluded;
static struct watcher *others[3];

void watcher_set_up(void)
{
    scratch_make();
    root = (struct path_root){ .path = scratch, .fd = open(scratch, O_PATH | O_DIRECTORY | O_CLOEXEC) };
    ck_assert_int_ge(root.fd, 0);
    ck_assert_int_eq(chdir(scratch), 0);
    excluded = glob_new(GLOB_EXCLUDE);
    instance = instance_open(NULL);
    ck_assert_ptr_nonnull(instance);
}

void watcher_tear_down(void)
{
    watcher_free(STEAL(w));
    for (size_t i = 0; i < N_ELEMENTS(others); i++)
        watcher_free(STEAL(others[i]));
    instance_free(instance);
    glob_free(excluded);
    close(root.fd);
    ck_assert_int_eq(chdir("/"), 0);
    scratch_remove();
}

struct watcher *try_to_watch(const char *path, bool recursive, unsigned types, struct error *err)
{
    const struct watcher_options options = { .root = &root,
                                             .path = path,
                                             .recursive = recursive,
                                             .types = types,
                                             .excluded = excluded,
                                             .instance = instance,
                                             .reader_fd = -1 };
    return watcher_open(&options, err);
}

void watch(const char *path, unsigned types)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    w = try_to_watch(path, true, types, &err);
    ck_assert_msg(w != NULL, "%s", err.message);
}

void others_come_and_go(unsigned *seed)
{
    char path[64];
    struct watcher **other = &others[(unsigned)rand_r(seed) % N_ELEMENTS(others)];
    if (*other && rand_r(seed) % 4) {
        watcher_read(*other);
        return;
    }
    watcher_free(STEAL(*other));
    picture_random_path(path, seed);
    *other = try_to_watch(rand_r(seed) % 2 ? "." : path, true, USUAL, NULL);
}
