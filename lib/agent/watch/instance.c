/* Owns the kernel's inotify descriptor and who of the process's watchers holds which of its watches. A watch
 * of the kernel's ends with its last holder. Must not know what an event means to a watcher, nor any path. */
#include "lib/agent/watch/instance.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/queue.h>

#define READ_PIECE  (64u << 10)
#define EVENT_MOST  (sizeof(struct inotify_event) + NAME_MAX + 1)
#define SLOTS_LEAST 64
/* The kernel tells of each watch that it was asked to end: so many are ended before it is listened to. */
#define ENDED_MOST 1024
/* These are nobody's wish. */
#define ALWAYS (IN_IGNORED | IN_UNMOUNT)

/* One inbox's part in one watch of the kernel's. */
enum { BY_WD, BY_NUMBER, KEYS };
struct hold {
    struct hold *next[KEYS];
    int key[KEYS]; /* the kernel's number, the inbox's */
    struct inbox *inbox;
    uint32_t mask;
};

struct index {
    struct hold **slots;
    size_t capacity, count;
};

struct inbox {
    LIST_ENTRY(inbox) next;
    struct instance *instance;
    int wake_fd;
    struct buffer queue;
    size_t last; /* where the last event of the queue begins */
    bool overflowed;
};

struct instance {
    pthread_mutex_t lock; /* over all below, all inboxes' queues, and the current folder of the process */
    int fd;
    int last_number;
    unsigned ended; /* watches, since the kernel was listened to */
    struct index holds[KEYS];
    LIST_HEAD(, inbox) inboxes;
    char *piece;
};

/* ---- who holds what ---- */

static size_t slot_of(const struct index *index, int key)
{
    return (uint32_t)key * 2654435769u >> 7 & (index->capacity - 1);
}

static void index_link(struct index *index, int which, struct hold *hold)
{
    struct hold **slot = &index->slots[slot_of(index, hold->key[which])];
    hold->next[which] = *slot;
    *slot = hold;
}

static void index_grow(struct index *index, int which)
{
    struct index larger = { .capacity = index->capacity ? 2 * index->capacity : SLOTS_LEAST,
                            .count = index->count };
    larger.slots = xcalloc(larger.capacity, sizeof(struct hold *));
    for (size_t i = 0; i < index->capacity; i++)
        for (struct hold *hold = index->slots[i], *next; hold; hold = next) {
            next = hold->next[which];
            index_link(&larger, which, hold);
        }
    free(index->slots);
    *index = larger;
}

static void index_add(struct index *index, int which, struct hold *hold)
{
    if (index->count >= index->capacity)
        index_grow(index, which);
    index_link(index, which, hold);
    index->count++;
}

static void index_remove(struct index *index, int which, const struct hold *hold)
{
    struct hold **at = &index->slots[slot_of(index, hold->key[which])];
    while (*at != hold)
        at = &(*at)->next[which];
    *at = hold->next[which];
    index->count--;
}

/* From a hold on (NULL: from the first), the next one with the key. */
static struct hold *index_next(const struct index *index, int which, int key, const struct hold *after)
{
    struct hold *hold = after                 ? after->next[which]
                        : index->capacity > 0 ? index->slots[slot_of(index, key)]
                                              : NULL;
    while (hold && hold->key[which] != key)
        hold = hold->next[which];
    return hold;
}

static struct hold *holder_of(const struct instance *i, int wd)
{
    return index_next(&i->holds[BY_WD], BY_WD, wd, NULL);
}

static struct hold *own_hold(const struct inbox *inbox, int wd)
{
    struct hold *hold = holder_of(inbox->instance, wd);
    while (hold && hold->inbox != inbox)
        hold = index_next(&inbox->instance->holds[BY_WD], BY_WD, wd, hold);
    return hold;
}

static struct hold *hold_new(struct inbox *inbox, int wd, uint32_t mask)
{
    struct instance *i = inbox->instance;
    struct hold *hold = xmalloc(sizeof *hold);
    i->last_number = i->last_number < INT_MAX ? i->last_number + 1 : 1;
    *hold = (struct hold){ .key = { wd, i->last_number }, .inbox = inbox, .mask = mask };
    for (int which = 0; which < KEYS; which++)
        index_add(&i->holds[which], which, hold);
    return hold;
}

static void hold_free(struct instance *i, struct hold *hold)
{
    for (int which = 0; which < KEYS; which++)
        index_remove(&i->holds[which], which, hold);
    free(hold);
}

/* ---- what is told ---- */

static void put(struct inbox *inbox, const struct inotify_event *event, int number)
{
    struct buffer *queue = &inbox->queue;
    struct inotify_event *last = queue->length ? (void *)(queue->data + inbox->last) : NULL;
    if (inbox->overflowed && !(event->mask & IN_IGNORED))
        return;
    if (last && last->wd == number && last->mask == event->mask && last->cookie == event->cookie &&
        last->len == event->len && !memcmp(last->name, event->name, event->len))
        return; /* as the kernel does */
    if (!last)
        eventfd_write(inbox->wake_fd, 1);
    inbox->last = queue->length;
    buffer_append(queue, event, sizeof *event + event->len);
    last = (void *)(queue->data + inbox->last);
    last->wd = number;
}

static void put_overflow(struct inbox *inbox)
{
    const struct inotify_event event = { .mask = IN_Q_OVERFLOW };
    put(inbox, &event, -1);
}

/* Of a full one only what tells of a watch's end is kept, until it was emptied: each watch has one. */
static void put_bounded(struct inbox *inbox, const struct inotify_event *event, int number)
{
    if (inbox->queue.length >= INBOX_MOST && !inbox->overflowed) {
        put_overflow(inbox);
        inbox->overflowed = true;
    }
    put(inbox, event, number);
}

static void part_overflow(struct instance *i)
{
    struct inbox *inbox;
    LIST_FOREACH(inbox, &i->inboxes, next)
        put_overflow(inbox);
}

static void part_event(struct instance *i, const struct inotify_event *event)
{
    for (struct hold *hold = holder_of(i, event->wd), *next; hold; hold = next) {
        next = index_next(&i->holds[BY_WD], BY_WD, event->wd, hold);
        if (event->mask & (ALWAYS | (hold->mask & IN_ALL_EVENTS)))
            put_bounded(hold->inbox, event, hold->key[BY_NUMBER]);
        if (event->mask & IN_IGNORED)
            hold_free(i, hold);
    }
}

/* The kernel gives as many events as there is room for: where another one would have had room, that was all.
 */
static void read_all(struct instance *i)
{
    ssize_t got;
    i->ended = 0;
    do {
        got = read(i->fd, i->piece, READ_PIECE);
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event = (const void *)(i->piece + at);
            at += (ssize_t)(sizeof *event + event->len);
            if (event->mask & IN_Q_OVERFLOW)
                part_overflow(i);
            else
                part_event(i, event);
        }
    } while (got > (ssize_t)(READ_PIECE - EVENT_MOST) || (got < 0 && errno == EINTR));
}

void instance_read(struct instance *i)
{
    pthread_mutex_lock(&i->lock);
    read_all(i);
    pthread_mutex_unlock(&i->lock);
}

void inbox_take(struct inbox *inbox, struct buffer *ret)
{
    eventfd_t count;
    pthread_mutex_lock(&inbox->instance->lock);
    if (inbox->queue.length > 0) {
        eventfd_read(inbox->wake_fd, &count);
        buffer_append(ret, inbox->queue.data, inbox->queue.length);
        buffer_free(&inbox->queue);
    }
    inbox->overflowed = false;
    pthread_mutex_unlock(&inbox->instance->lock);
}

/* ---- watches ---- */

/* What others have asked for stays asked for. What nobody asks for any more is told to nobody. */
static int add_kernel_watch(const struct instance *i, int folder, int home, uint32_t mask)
{
    if (fchdir(folder) < 0)
        return -1;
    int wd = inotify_add_watch(i->fd, ".", mask | IN_MASK_ADD);
    int problem = errno;
    if (fchdir(home) < 0)
        abort();
    errno = problem;
    return wd;
}

/* A watch that the kernel had before has a past, which goes to who held it then; and may have ended. */
static int hold_watch(struct inbox *inbox, int wd, uint32_t mask)
{
    struct hold *hold = own_hold(inbox, wd);
    if (!hold && holder_of(inbox->instance, wd)) {
        read_all(inbox->instance);
        if (!holder_of(inbox->instance, wd)) {
            errno = ENOENT;
            return -1;
        }
    }
    if (!hold)
        hold = hold_new(inbox, wd, mask);
    hold->mask = mask;
    return hold->key[BY_NUMBER];
}

int inbox_watch(struct inbox *inbox, int folder, int home, uint32_t mask)
{
    struct instance *i = inbox->instance;
    pthread_mutex_lock(&i->lock);
    int wd = add_kernel_watch(i, folder, home, mask);
    int number = wd < 0 ? -1 : hold_watch(inbox, wd, mask);
    int problem = errno;
    pthread_mutex_unlock(&i->lock);
    errno = problem;
    return number;
}

static void let_go(struct instance *i, struct hold *hold)
{
    int wd = hold->key[BY_WD];
    hold_free(i, hold);
    if (holder_of(i, wd))
        return;
    inotify_rm_watch(i->fd, wd);
    if (++i->ended >= ENDED_MOST)
        read_all(i);
}

void inbox_unwatch(struct inbox *inbox, int number)
{
    struct instance *i = inbox->instance;
    pthread_mutex_lock(&i->lock);
    struct hold *hold = index_next(&i->holds[BY_NUMBER], BY_NUMBER, number, NULL);
    if (hold && hold->inbox == inbox)
        let_go(i, hold);
    pthread_mutex_unlock(&i->lock);
}

/* ---- their lives ---- */

struct instance *instance_open(struct error *err)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0 && errno == EMFILE) {
        error_set(err, ERROR_TOO_MANY,
                  "EMFILE: no more watches can begin for this user of the system "
                  "(fs.inotify.max_user_instances): end a program that watches files");
        return NULL;
    }
    if (fd < 0) {
        error_errno(err, ERROR_DRIVER, errno, "inotify");
        return NULL;
    }
    struct instance *i = xcalloc(1, sizeof *i);
    *i = (struct instance){ .fd = fd, .piece = xmalloc(READ_PIECE) };
    pthread_mutex_init(&i->lock, NULL);
    LIST_INIT(&i->inboxes);
    return i;
}

void instance_free(struct instance *i)
{
    if (!i)
        return;
    close(i->fd);
    for (int which = 0; which < KEYS; which++)
        free(i->holds[which].slots);
    pthread_mutex_destroy(&i->lock);
    free(i->piece);
    free(i);
}

int instance_fd(const struct instance *i)
{
    return i->fd;
}

struct inbox *inbox_open(struct instance *i, struct error *err)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        error_errno(err, ERROR_DRIVER, errno, "eventfd");
        return NULL;
    }
    struct inbox *inbox = xcalloc(1, sizeof *inbox);
    *inbox = (struct inbox){ .instance = i, .wake_fd = fd };
    pthread_mutex_lock(&i->lock);
    LIST_INSERT_HEAD(&i->inboxes, inbox, next);
    pthread_mutex_unlock(&i->lock);
    return inbox;
}

/* Those of one slot. */
static void let_go_all(struct inbox *inbox, size_t slot)
{
    struct instance *i = inbox->instance;
    for (struct hold *hold = i->holds[BY_NUMBER].slots[slot], *next; hold; hold = next) {
        next = hold->next[BY_NUMBER];
        if (hold->inbox != inbox)
            continue;
        let_go(i, hold);
        next = i->holds[BY_NUMBER].slots[slot]; /* others may have gone with it */
    }
}

/* In turns: the others are told of changes meanwhile. */
static bool let_go_some(struct inbox *inbox, size_t *at, size_t *capacity)
{
    struct instance *i = inbox->instance;
    struct index *index = &i->holds[BY_NUMBER];
    pthread_mutex_lock(&i->lock);
    if (*capacity != index->capacity) /* it has grown, and all lies elsewhere */
        *at = 0;
    *capacity = index->capacity;
    for (size_t end = *at + ENDED_MOST; *at < end && *at < index->capacity; ++*at)
        let_go_all(inbox, *at);
    bool all = *at >= index->capacity;
    if (all)
        LIST_REMOVE(inbox, next);
    pthread_mutex_unlock(&i->lock);
    return !all;
}

void inbox_free(struct inbox *inbox)
{
    size_t at = 0, capacity = 0;
    if (!inbox)
        return;
    while (let_go_some(inbox, &at, &capacity))
        ;
    close(inbox->wake_fd);
    buffer_free(&inbox->queue);
    free(inbox);
}

int inbox_fd(const struct inbox *inbox)
{
    return inbox->wake_fd;
}
