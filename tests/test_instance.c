/* One inotify instance for several: each is told what an instance of its own would have told, whoever else
 * watches the same folders, comes, goes, or does not read. */
#include "lib/agent/watch/instance.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

static struct instance *instance;
static int home;

static void set_up(void)
{
    scratch_make();
    home = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(fchdir(home), 0);
    instance = instance_open(NULL);
    ck_assert_ptr_nonnull(instance);
}

static void tear_down(void)
{
    instance_free(instance);
    ck_assert_int_eq(chdir("/"), 0);
    close(home);
    scratch_remove();
}

static struct inbox *an_inbox(void)
{
    struct inbox *inbox = inbox_open(instance, NULL);
    ck_assert_ptr_nonnull(inbox);
    return inbox;
}

static int watch(struct inbox *inbox, const char *name, uint32_t mask)
{
    int folder = openat(home, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int number = folder < 0 ? -1 : inbox_watch(inbox, folder, home, mask | IN_ONLYDIR);
    close(folder);
    return number;
}

static void make(const char *name)
{
    int fd = openat(home, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

/* "NUMBER+name" for what was made, "-" removed, "!" the watch has ended, "?" some are missing. */
static const char *text_of(const struct buffer *events)
{
    static struct buffer text;
    text.length = 0;
    for (size_t at = 0; at < events->length;) {
        const struct inotify_event *event = (const void *)(events->data + at);
        const char *what = event->mask & IN_CREATE       ? "+"
                           : event->mask & IN_DELETE     ? "-"
                           : event->mask & IN_IGNORED    ? "!"
                           : event->mask & IN_Q_OVERFLOW ? "?"
                                                         : "other ";
        buffer_printf(&text, "%d%s%s ", event->wd, what, event->len ? event->name : "");
        at += sizeof *event + event->len;
    }
    return buffer_text(&text);
}

static void expect(struct inbox *inbox, const char *format, ...)
{
    char wanted[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(wanted, sizeof wanted, format, arguments);
    va_end(arguments);
    _cleanup_buffer_ struct buffer events = BUFFER_INIT;
    struct pollfd fd = { .fd = inbox_fd(inbox), .events = POLLIN };
    instance_read(instance);
    ck_assert_int_eq(poll(&fd, 1, 0), wanted[0] != '\0');
    inbox_take(inbox, &events);
    ck_assert_str_eq(text_of(&events), wanted);
    ck_assert_int_eq(poll(&fd, 1, 0), 0);
}

START_TEST(each_is_told_what_it_asked_for)
{
    struct inbox *one = an_inbox(), *two = an_inbox();
    mkdir("a", 0755);
    mkdir("b", 0755);
    int a1 = watch(one, "a", IN_CREATE), a2 = watch(two, "a", IN_DELETE), b2 = watch(two, "b", IN_CREATE);
    ck_assert(a1 > 0 && a2 > 0 && b2 > 0 && a1 != a2);
    ck_assert_int_eq(watch(one, "a", IN_CREATE), a1);
    make("a/f");
    make("b/g");
    unlink("a/f");
    expect(one, "%d+f ", a1);
    expect(two, "%d+g %d-f ", b2, a2);
    inbox_free(one);
    inbox_free(two);
}
END_TEST

START_TEST(an_end_takes_nothing_from_others)
{
    struct inbox *one = an_inbox(), *two = an_inbox();
    mkdir("a", 0755);
    int a1 = watch(one, "a", IN_CREATE), a2 = watch(two, "a", IN_CREATE);
    inbox_unwatch(one, a1);
    inbox_unwatch(one, a2); /* is not its own */
    make("a/f");
    expect(one, "");
    expect(two, "%d+f ", a2);
    watch(one, "a", IN_CREATE);
    inbox_free(one);
    make("a/g");
    expect(two, "%d+g ", a2);
    inbox_unwatch(two, a2);
    make("a/h");
    expect(two, "");
    a2 = watch(two, "a", IN_CREATE);
    make("a/i");
    expect(two, "%d+i ", a2);
    inbox_free(two);
}
END_TEST

/* Who comes to a watch that others have is not told what happened before, also where nobody has read it. */
START_TEST(the_past_is_not_told)
{
    struct inbox *one = an_inbox(), *two = an_inbox();
    mkdir("a", 0755);
    int a1 = watch(one, "a", IN_CREATE);
    make("a/f");
    int a2 = watch(two, "a", IN_CREATE);
    make("a/g");
    expect(one, "%d+f %d+g ", a1, a1);
    expect(two, "%d+g ", a2);
    make("a/h");
    inbox_unwatch(two, a2);
    int again = watch(two, "a", IN_CREATE);
    ck_assert_int_ne(again, a2); /* what is in its inbox is known to be old */
    make("a/i");
    expect(two, "%d+i ", again);
    inbox_free(one);
    inbox_free(two);
}
END_TEST

START_TEST(a_folder_that_goes_ends_for_all)
{
    struct inbox *one = an_inbox(), *two = an_inbox();
    mkdir("a", 0755);
    int a1 = watch(one, "a", IN_CREATE), a2 = watch(two, "a", IN_CREATE);
    int old = open("a", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rmdir("a");
    close(old);
    mkdir("a", 0755);
    int new = watch(one, "a", IN_CREATE);
    make("a/f");
    expect(one, "%d! %d+f ", a1, new);
    expect(two, "%d! ", a2);
    inbox_unwatch(two, a2);
    inbox_free(one);
    inbox_free(two);
}
END_TEST

static bool has_overflow(struct inbox *inbox)
{
    _cleanup_buffer_ struct buffer events = BUFFER_INIT;
    instance_read(instance);
    inbox_take(inbox, &events);
    ck_assert_uint_le(events.length, INBOX_MOST + 600);
    return strstr(text_of(&events), "-1? ") != NULL;
}

static void storm(const char *name, int count)
{
    for (int i = 0; i < count; i++) {
        make(name);
        unlink(name);
    }
}

START_TEST(a_full_queue_is_told_to_all)
{
    struct inbox *one = an_inbox(), *two = an_inbox();
    mkdir("a", 0755);
    mkdir("b", 0755);
    watch(one, "a", IN_CREATE | IN_DELETE);
    int b2 = watch(two, "b", IN_CREATE);
    storm("a/f", 9000);
    ck_assert(has_overflow(one));
    expect(two, "-1? ");
    make("b/f");
    expect(two, "%d+f ", b2);
    inbox_free(one);
    inbox_free(two);
}
END_TEST

START_TEST(who_does_not_read_loses_alone)
{
    struct inbox *one = an_inbox(), *two = an_inbox();
    mkdir("a", 0755);
    int a1 = watch(one, "a", IN_CREATE | IN_DELETE), a2 = watch(two, "a", IN_CREATE | IN_DELETE);
    for (int i = 0; i < 20; i++) {
        storm("a/f", 1000);
        ck_assert(!has_overflow(two));
    }
    rmdir("a");
    expect(two, "%d! ", a2);
    _cleanup_buffer_ struct buffer events = BUFFER_INIT;
    inbox_take(one, &events);
    _cleanup_free_ char *end = xasprintf("-1? %d! ", a1);
    const char *text = text_of(&events);
    ck_assert_str_eq(text + strlen(text) - strlen(end), end);
    inbox_free(one);
    inbox_free(two);
}
END_TEST

/* The kernel says of each watch that it has ended; others' queue is not filled by it. */
START_TEST(many_watches_end_without_an_overflow)
{
    enum { FOLDERS = 17000 };
    struct inbox *one = an_inbox(), *two = an_inbox();
    for (int i = 0; i < FOLDERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d", i);
        ck_assert_int_eq(mkdir(name, 0755), 0);
        ck_assert_int_gt(watch(one, name, IN_CREATE), 0);
    }
    int number = watch(two, "d7", IN_CREATE);
    inbox_free(one);
    make("d7/f");
    expect(two, "%d+f ", number);
    inbox_free(two);
}
END_TEST

/* ---- threads ---- */

enum { THREADS = 6, TURNS = 300, NAMES = 5 };
static atomic_bool over;

/* Comes to all folders and leaves some, again and again; a file that is made after it came is told once. */
static void *come_and_go(void *user)
{
    unsigned seed = (unsigned)(uintptr_t)user;
    long wrong = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        _cleanup_buffer_ struct buffer events = BUFFER_INIT;
        struct inbox *inbox = inbox_open(instance, NULL);
        int number[NAMES], seen = 0;
        char name[32], folder[16];
        for (int i = 0; i < NAMES; i++) {
            snprintf(folder, sizeof folder, "d%d", i);
            number[i] = watch(inbox, folder, IN_CREATE);
        }
        int kept = rand_r(&seed) % NAMES;
        for (int i = 0; i < NAMES; i++)
            if (i != kept)
                inbox_unwatch(inbox, number[i]);
        snprintf(name, sizeof name, "d%d/%u-%d", kept, (unsigned)(uintptr_t)user, turn);
        close(openat(home, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        instance_read(instance);
        inbox_take(inbox, &events);
        for (size_t at = 0; at < events.length;) {
            const struct inotify_event *event = (const void *)(events.data + at);
            seen += event->wd == number[kept] && !strcmp(event->name, strchr(name, '/') + 1);
            at += sizeof *event + event->len;
        }
        wrong += seen != 1;
        unlinkat(home, name, 0);
        inbox_free(inbox);
    }
    return (void *)wrong;
}

static void *read_on(void *user)
{
    (void)user;
    while (!over) {
        struct pollfd fd = { .fd = instance_fd(instance), .events = POLLIN };
        poll(&fd, 1, 10);
        instance_read(instance);
    }
    return NULL;
}

START_TEST(threads_come_and_go)
{
    pthread_t reader, threads[THREADS];
    char name[16];
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "d%d", i);
        mkdir(name, 0755);
    }
    over = false;
    ck_assert_int_eq(pthread_create(&reader, NULL, read_on, NULL), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        ck_assert_int_eq(pthread_join(threads[i], &wrong), 0);
        ck_assert_int_eq((long)wrong, 0);
    }
    over = true;
    pthread_join(reader, NULL);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { each_is_told_what_it_asked_for,
                                   an_end_takes_nothing_from_others,
                                   the_past_is_not_told,
                                   a_folder_that_goes_ends_for_all,
                                   a_full_queue_is_told_to_all,
                                   who_does_not_read_loses_alone,
                                   many_watches_end_without_an_overflow,
                                   threads_come_and_go };
    return unit_run_tests("instance", tests, sizeof tests / sizeof *tests, set_up, tear_down, 120);
}
