/* A client that draws the tree from what a watch tells, alone, and has it: folders and files come, go and are
 * renamed faster than anybody looks. */
#include "lib/base/clock.h"
#include "tests/support/unit.h"
#include "tests/support/watcher_case.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a client's picture of the tree, from what is told alone ---- */

static char *picture[4096];
static size_t pictured;
static bool is_lost; /* it is to be drawn anew */

/* Others that watch the same folders, if there are to be any. */
static struct watcher *others[3];
static bool beside_others;

static void forget(size_t i)
{
    free(picture[i]);
    picture[i] = picture[--pictured];
}

static bool lies_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || path[length] == '\0');
}

static void take_away(const char *path, const char *to)
{
    for (size_t i = 0; i < pictured;) {
        if (!lies_below(picture[i], path)) {
            i++;
        } else if (!to) {
            forget(i);
        } else {
            char *moved = xasprintf("%s%s", to, picture[i] + strlen(path));
            free(picture[i]);
            picture[i++] = moved;
        }
    }
}

static void put_in(const char *path)
{
    for (size_t i = 0; i < pictured; i++)
        if (!strcmp(picture[i], path))
            return;
    ck_assert_uint_lt(pictured, sizeof picture / sizeof *picture);
    picture[pictured++] = xstrdup(path);
}

static void redraw(const struct change *c)
{
    _cleanup_free_ char *path = xstrndup(c->path, c->length);
    _cleanup_free_ char *other = c->flags & CHANGE_MOVED ? xstrndup(c->other, c->other_length) : NULL;
    is_lost |= c->type == CHANGE_OVERFLOW;
    if (c->type == CHANGE_REMOVE && other) {
        take_away(other, NULL); /* what it takes the place of */
        take_away(path, other);
    } else if (c->type == CHANGE_REMOVE) {
        take_away(path, NULL);
    } else if (c->type == CHANGE_CREATE) {
        put_in(path);
    }
}

static void random_path(char *path, size_t size, unsigned *seed)
{
    size_t at = 0;
    for (int depth = 1 + rand_r(seed) % 4; depth > 0; depth--)
        at += (size_t)snprintf(path + at, size - at, "%s%c", at ? "/" : "", 'a' + rand_r(seed) % 3);
}

/* They come and go, and hold what they have not yet looked at. */
static void let_others_come_and_go(void)
{
    static unsigned seed = 1;
    char path[64];
    struct watcher **other = &others[(unsigned)rand_r(&seed) % N_ELEMENTS(others)];
    if (!beside_others)
        return;
    if (*other && rand_r(&seed) % 4) {
        watcher_read(*other);
        return;
    }
    watcher_free(*other);
    random_path(path, sizeof path, &seed);
    *other = try_to_watch(rand_r(&seed) % 2 ? "." : path, true, USUAL, NULL);
}

static void watch_until_quiet(pid_t maker)
{
    for (int64_t quiet = clock_boottime_ms() + 300; clock_boottime_ms() < quiet;) {
        struct pollfd fd = { .fd = instance_fd(instance), .events = POLLIN };
        if (poll(&fd, 1, 2) > 0 || waitpid(maker, NULL, WNOHANG) == 0)
            quiet = clock_boottime_ms() + 300;
        let_others_come_and_go();
        watcher_read(w);
        const struct change *c;
        while ((c = pending_next(watcher_pending(w), clock_boottime_us())) != NULL) {
            redraw(c);
            pending_done(watcher_pending(w), clock_boottime_us());
        }
    }
}

static void make_changes(unsigned seed, int steps)
{
    char one[64], other[64];
    for (int i = 0; i < steps; i++) {
        random_path(one, sizeof one, &seed);
        random_path(other, sizeof other, &seed);
        switch (rand_r(&seed) % 8) {
        case 0:
        case 1:
        case 2:
            mkdir(one, 0755);
            break;
        case 3:
        case 4:
            close(open(one, O_CREAT | O_WRONLY, 0644));
            break;
        case 5:
            unlink(one);
            break;
        case 6:
            rmdir(one);
            break;
        default:
            rename(one, other);
        }
        if (rand_r(&seed) % 16 == 0)
            usleep((useconds_t)(rand_r(&seed) % 300));
    }
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void clear_picture(void)
{
    while (pictured > 0)
        forget(0);
}

static void draw_tree(void)
{
    char line[512];
    FILE *find = popen("find . -mindepth 1", "r");
    clear_picture();
    for (; fgets(line, sizeof line, find); put_in(line + 2))
        line[strcspn(line, "\n")] = '\0';
    pclose(find);
}

static void compare_with_tree(void)
{
    char line[512];
    size_t i = 0;
    FILE *find = popen("find . -mindepth 1 | cut -c 3- | LC_ALL=C sort", "r");
    qsort(picture, pictured, sizeof *picture, compare);
    for (; fgets(line, sizeof line, find); i++) {
        line[strcspn(line, "\n")] = '\0';
        ck_assert_msg(i < pictured && !strcmp(picture[i], line), "%s is there, %s was told", line,
                      i < pictured ? picture[i] : "nothing");
    }
    pclose(find);
    ck_assert_msg(i == pictured, "%s was told, and is not there", i < pictured ? picture[i] : "");
}

static void change_and_look(unsigned seed, int steps)
{
    pid_t maker = fork();
    if (maker == 0) {
        make_changes(seed, steps);
        _exit(0);
    }
    watch_until_quiet(maker);
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

/* Nothing that is there may be unwatched. */
static void probe_all_folders(void)
{
    ck_assert_int_eq(nftw(".", make_probe, 32, FTW_PHYS), 0);
    watch_until_quiet(-1);
    compare_with_tree();
    ck_assert_int_eq(nftw(".", remove_probe, 32, FTW_PHYS), 0);
    watch_until_quiet(-1);
    compare_with_tree();
}

/* Folders and files come, go and are renamed faster than anybody looks: who draws what is told has the tree,
 * unless an overflow told that it is to be looked at; and also then all is watched. */
static void check_that_it_makes_the_tree(void)
{
    enum { ROUNDS = 6 };
    unsigned whole = 0;
    watch(".", NAMES);
    for (unsigned round = 0; round < ROUNDS; round++) {
        is_lost = false;
        change_and_look((unsigned)getpid() + round, round % 2 ? 2000 : 40);
        if (is_lost)
            draw_tree();
        else
            whole++;
        compare_with_tree();
        is_lost = false;
        probe_all_folders();
        ck_assert(!is_lost);
    }
    printf("%u of %d rounds without an overflow\n", whole, ROUNDS);
    ck_assert_uint_gt(whole, 0);
    clear_picture();
}

START_TEST(what_is_told_makes_the_tree)
{
    check_that_it_makes_the_tree();
}
END_TEST

START_TEST(it_does_so_beside_others)
{
    beside_others = true;
    check_that_it_makes_the_tree();
    for (size_t i = 0; i < N_ELEMENTS(others); i++)
        watcher_free(others[i]);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { what_is_told_makes_the_tree, it_does_so_beside_others };
    return unit_run_tests("watcher_tree", tests, N_ELEMENTS(tests), watcher_set_up, watcher_tear_down, 120);
}
