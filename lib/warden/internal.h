/* The warden's own. warden.c is the loop and the socket; place.c decides what each workspace needs next;
 * waiter.c tells who
 * asked; child.c starts programs and hears their one line and their end; ping.c asks keepers whether they
 * live; round.c is what happens by the clock; chore.c is what runs in a process of its own. */
#ifndef WARDEN_INTERNAL_H
#define WARDEN_INTERNAL_H

#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"
#include "lib/keeper/peers.h"
#include "lib/keeper/reactor.h"
#include "lib/store/state.h"
#include "lib/warden/warden.h"

#define WARDEN_STARTS_MAX     4 /* keepers that start at the same time */
#define WARDEN_CHORES_MAX     4 /* mends and removals at the same time */
#define WARDEN_BACKOFF_MIN_MS 1000
#define WARDEN_BACKOFF_MAX_MS 60000
#define WARDEN_START_MS       30000 /* a keeper that has not told by then is killed */
#define WARDEN_CHORE_MS       60000
#define WARDEN_PROBE_MS       20
#define WARDEN_ROUND_MS       60000
#define TRASH_AFTER_MS        1000

struct warden;
struct place;

enum child_kind { CHILD_KEEPER, CHILD_MEND, CHILD_REMOVE, CHILD_SWEEP, CHILD_TRASH, CHILD_SHARE };

struct child {
    struct child *next;
    struct warden *warden;
    struct place *place; /* NULL for SWEEP, TRASH and SHARE */
    enum child_kind kind;
    bool adopted; /* another warden's: it cannot be waited for */
    bool told;    /* its line has come (or will not come any more) */
    pid_t pid;
    int pidfd, line_fd;
    int64_t deadline_ms; /* for its line, or, for a chore, its end */
    struct buffer line;
    struct reactor_source *end_source, *line_source;
};

struct waiter {
    struct waiter *next;
    struct peer *peer;
    uint32_t stream;
};

/* A workspace that something is to be done about, or that has a keeper. */
struct place {
    struct place *next;
    char id[ID_SIZE];
    struct child *keeper, *chore;
    json_t *spec; /* of a workspace to be created */
    struct waiter *starters, *removers;
    bool mend;
    int failures;          /* starts in a row */
    struct error conflict; /* of the keeper that is about to end */
    int64_t not_before_ms;
    struct error last; /* why the last start failed */
    int mend_failures;
    int64_t probe_ms; /* whether its keeper listens is asked again then */
    int64_t mend_ms;
    bool unwanted; /* to be removed once its keeper has told */
    bool discard;  /* to be removed, whoever still waits for that and whatever its keeper says */
    int discard_attempts;
    int64_t discard_ms;
    struct {
        struct channel *channel; /* asked, not answered */
        struct reactor_source *source;
        int silent; /* steps */
    } ping;
};

struct warden {
    const struct config *config;
    const char *program;
    char **environment; /* for children */
    struct state *state;
    struct reactor *reactor;
    struct peers *peers;
    int signal_fd;
    bool ending;
    struct place *places;
    struct child *children;
    struct child *sweep, *trash, *share;
    uint64_t share_seen; /* of live workspaces' caches */
    size_t starting, chores;
    int64_t round_ms, trash_ms, ping_ms, share_ms;
};

/* waiter.c */
void waiter_add(struct waiter **list, struct peer *peer, uint32_t stream);
void waiters_answer(struct waiter **list, const json_t *ret, const struct error *err); /* empties it */
void waiters_forget(struct waiter **list, const struct peer *peer);
void waiters_free(struct waiter *first);

/* child.c */
struct child *child_start(struct warden *w, enum child_kind kind, struct place *place, const json_t *spec,
                          struct error *err);
struct child *child_adopt(struct warden *w, struct place *place, pid_t pid, int pidfd); /* takes pidfd */
void child_kill(struct child *c);
void child_free(struct child *c); /* forgets it; does not end it */

/* place.c */
struct place *place_get(struct warden *w, const char *id); /* makes it where there is none */
void place_request_start(struct warden *w, const char *id, struct peer *peer, uint32_t stream);
/* Joins another one's where that is being made for the same owner and name, and both go by name. */
void place_request_create(struct warden *w, const char *id, json_t *spec, struct peer *peer, uint32_t stream);
/* force: a keeper that lives is ended. */
void place_request_remove(struct warden *w, const char *id, bool force, struct peer *peer, uint32_t stream);
/* Whoever wanted it is gone: a keeper that lives is ended, for no fault of its own. */
void place_request_take_back(struct warden *w, const char *id, struct peer *peer, uint32_t stream);
void place_forget_peer(struct warden *w, const struct peer *peer);
void place_told(struct child *c,
                const json_t *line); /* line NULL: it ended, or its time was over, without a word */
void place_ended(struct child *c);
void places_advance(struct warden *w);
int64_t places_deadline(const struct warden *w);
void place_free(struct place *p);

/* ping.c */
void ping_tick(struct warden *w);
void ping_end(struct place *p);

/* share.c */
void share_tick(struct warden *w);

/* round.c */
void round_scan(struct warden *w); /* finds records without a keeper */
/* Where the record says that it runs: adopts its keeper, or marks the place to be mended. */
void round_look_at(struct warden *w, const char *id, const json_t *record);
void round_tick(struct warden *w);
void round_ended(struct child *c);

#endif
