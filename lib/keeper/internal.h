/* The keeper's own: what its files share. keeper.c turns the loop; start.c and stop.c are the two ends of its
 * life; life.c its deadlines; server.c the workers; box.c the sandbox's end of the channel; exec.c what is
 * asked of an exec; journal.c what an exec tells, tell.c how; held.c what of that goes on while the log takes
 * no more; relay.c the calls on files; watch.c watches. */
#ifndef KEEPER_INTERNAL_H
#define KEEPER_INTERNAL_H

#include "lib/base/buffer.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/memory.h"
#include "lib/base/steady.h"
#include "lib/driver/driver.h"
#include "lib/keeper/flusher.h"
#include "lib/keeper/keeper.h"
#include "lib/keeper/peers.h"
#include "lib/keeper/reactor.h"
#include "lib/wire/channel.h"

#include <signal.h>

#define KEEPER_EXECS_MAX         1024 /* live at once */
#define KEEPER_SUBSCRIPTIONS_MAX 65536
#define KEEPER_GRACE_MS          2000 /* between a signal to a tree and the KILL to what is left of it */
#define KEEPER_TAIL_MS           100  /* how long the beginning of a character waits for its rest */
#define KEEPER_FULL_RETRY_MS     250
#define KEEPER_START_MS          10000 /* for the agent's first word */

/* The beginning of a UTF-8 character at the end of what was written so far. */
struct tail {
    unsigned length;
    char bytes[4];
    int64_t deadline_ms;
};

/* What a failed write of the journal puts back. */
struct exec_image {
    struct exec_head head;
    struct tail tails[2]; /* stdout, stderr */
    uint64_t refused;     /* bytes that are dropped and not told yet */
    bool over;            /* the final event is written */
    bool closed;          /* the agent has nothing more of it */
};

/* An exec that the agent knows, until its stream is closed. */
struct exec {
    struct exec *next;
    struct exec_image now, before;
    bool touched;   /* before is valid: the journal is being written */
    bool settled;   /* after the final event: counters and deadlines are done */
    bool forgotten; /* its log was pruned; the agent may still tell of it */
    int64_t started_ms, timeout_s;
    int64_t timeout_ms, kill_ms; /* deadlines; INT64_MAX = none */
    bool timeout_fired, kill_sent;
    uint64_t asked;      /* signals that were asked for, by number */
    int64_t oom_base;    /* driver's count when it started */
    struct buffer input; /* waits for credit */
    bool input_eof, eof_sent;
    size_t used;                /* bytes of this batch, to be granted after it is written */
    size_t held;                /* what its entries of output will take in the log */
    size_t allowance;           /* how much output of it this batch takes; SIZE_MAX but on a full disk */
    bool ending;                /* an entry tells its end, and was not tried alone yet */
    bool waiting, waiting_held; /* as the agent said last; an entry says it */
    uint64_t dropping[2];       /* bytes of stdout and stderr that entries refuse */
};

enum entry_kind {
    ENTRY_STARTED,
    ENTRY_FAILED,
    ENTRY_DATA,
    ENTRY_FLUSH,
    ENTRY_EXIT,
    ENTRY_WAITING,
    ENTRY_TOUCH,
    ENTRY_LOST,
    ENTRY_CLOSE,
    ENTRY_REFUSED,
    ENTRY_KINDS
};

/* One thing that happened to an exec and is not in the store yet. */
struct entry {
    enum entry_kind kind;
    struct exec *exec;     /* NULL: it is written */
    unsigned channel;      /* DATA, FLUSH, REFUSED: 0 = stdout, 1 = stderr */
    size_t offset, length; /* DATA: output; FAILED, LOST: why; STARTED: another command that runs instead;
                              in journal.bytes */
    int64_t wall_us, boot_ms;
    int a, b; /* STARTED: pid, pgid; EXIT: wait status, oom */
};

struct journal {
    struct entry *entries;
    size_t count, capacity;
    struct buffer bytes;
    bool full; /* the store took it not; retry_ms says when next */
    bool ends; /* there is an exec whose end was not tried yet */
    int64_t retry_ms;
    int64_t shed_ms; /* gives a big buffer back then */
    int failures;    /* in a row, for another reason than a full store */
};

struct subscription {
    struct subscription *next;
    struct peer *peer;
    uint32_t stream;
    char id[ID_SIZE];   /* of an exec or a watch */
    bool queued, dirty; /* a NOTIFY lies in the peer's queue; another is due once that is out */
};

struct relay;
struct watch;
struct keeper_call {
    struct keeper_call *next;
    struct keeper *keeper;
    struct peer *peer; /* NULL: it went away */
    uint32_t stream;
    struct relay *relay; /* NULL: none works for it */
    bool twice, streams;
    int64_t data; /* bytes that follow; -1 = none */
    char *principal, *request_id, *key, *digest;
};

struct stop {
    bool wanted, remove;
    const char *state;
    char reason[200];
    struct keeper_call *call;
};

struct keeper {
    const struct keeper_options *options;
    const struct config *config;
    const struct driver *driver;
    const char *workspace_id;
    int lock_fd, signal_fd;
    bool is_new; /* made by this process: undone where it cannot start */
    struct state *state;
    struct events_writer *events;
    struct flusher *flusher;
    json_t *record;
    struct sandbox *sandbox;
    struct reactor *reactor;
    struct peers *peers;
    struct channel *agent;
    struct reactor_source *agent_source, *sandbox_source, *signal_source;
    struct exec *execs, *last_found;
    size_t live, running;
    struct journal journal;
    struct subscription *subscriptions;
    size_t subscription_count;
    struct keeper_call *calls;
    struct relay *relays;
    size_t relay_count;
    uint32_t last_relay; /* the agent's number of the last relay or watch */
    bool relayed;        /* bytes went on since it was cleared: the other side may have room again */
    struct watch *watches;
    size_t watch_count;
    int64_t watch_retry_ms; /* the store took their changes not: not before; 0 = it did */
    struct stop stop;
    bool agent_gone;
    int64_t active_ms;            /* last request, or last end of an exec */
    int64_t idle_s;               /* 0 = none */
    int64_t idle_ms, absolute_ms; /* deadlines; INT64_MAX = none */
    struct steady clock;          /* by which logs age */
    int64_t enforce_ms, prune_ms;
    bool enforce_over;
    int64_t enforce_kills; /* where the driver does not count itself */
};

/* start.c: all until the ready line. 0 = live. 1 = there is an older one for this idempotency key, told. */
int keeper_start(struct keeper *k, struct error *err);
void keeper_ready(struct keeper *k, const json_t *line); /* once */
void keeper_undo(struct keeper *k, const struct error *err);
/* Sets members in the record and in the store. */
int keeper_patch(struct keeper *k, json_t *changes /* stolen */, struct error *err);
int64_t spec_integer(const json_t *record, const char *name, int64_t otherwise);

/* stop.c */
void stop_want(struct keeper *k, const char *state, const char *format, ...)
    PRINTF_LIKE(3, 4); /* at the end of this turn; the first one counts */
void stop_now(struct keeper *k);

/* life.c */
void life_begin(struct keeper *k);
void life_active(struct keeper *k);
int64_t life_deadline(const struct keeper *k); /* the next of all */
void life_tick(struct keeper *k);
int64_t life_oom_kills(const struct keeper *k);
size_t life_ends(const struct keeper *k); /* how many execs and watches are to end yet */

/* box.c */
void box_watch(struct keeper *k);
void box_flush(struct keeper *k);
bool box_is_over(struct keeper *k); /* looks whether the sandbox has just ended */
void box_drain(struct keeper *k,
               int64_t deadline_ms); /* after the sandbox's end: what is left in the channel */
bool box_start_exec(struct keeper *k, const struct exec *e, const json_t *request); /* false: too large */
void box_signal(struct keeper *k, uint32_t stream, int signal_number, bool tree);
void box_detach(struct keeper *k, uint32_t stream); /* it may go on, its output is wanted no more */
void box_pump_input(struct keeper *k, struct exec *e);

/* exec.c */
struct exec *live_add(struct keeper *k, const struct exec_head *head);
struct exec *live_find(struct keeper *k, uint32_t stream);
void live_free(struct exec *e);
void live_reap(struct keeper *k);
void live_end_tree(struct keeper *k, struct exec *e, int signal_number);

/* journal.c */
void journal_add(struct keeper *k, struct exec *e, enum entry_kind kind, int a, int b);
void journal_add_started(struct keeper *k, struct exec *e, int pid, int pgid, const char *rewritten);
void journal_add_text(struct keeper *k, struct exec *e, enum entry_kind kind, const char *text,
                      size_t length);
void journal_add_data(struct keeper *k, struct exec *e, unsigned channel, const char *data, size_t length);
void journal_add_waiting(struct keeper *k, struct exec *e, bool is_waiting);
void journal_add_flush(struct keeper *k, struct exec *e, unsigned channel);
bool journal_write(struct keeper *k); /* false: it is held; nothing is lost */
/* One exec's entries in a batch of their own, without those of others: at most that much of its output, the
 * rest is refused. They leave the journal. */
int journal_write_exec(struct keeper *k, struct exec *e, size_t allowance, bool is_end, struct error *err);
void journal_shed(struct journal *j);
void journal_free(struct journal *j);

/* tell.c: within a batch. text = what the entry's offset stands for */
int tell_entry(struct keeper *k, const struct entry *entry, const char *text, struct error *err);

/* held.c: while journal.full */
bool held_refuses(const struct keeper *k, const struct exec *e, size_t length); /* more output of it */
bool held_is_much(const struct journal *j); /* nothing more is to be read */
void held_note(struct keeper *k, struct exec *e, enum entry_kind kind);
void held_retry(struct keeper *k, const struct error *err); /* each end may be tried again */
void held_write_ends(struct keeper *k);                     /* those that were not tried yet */
void held_relieve(struct keeper *k);                        /* lets commands go on that are to end */

/* relay.c */
#define RELAY_STREAMS 0x80000000u /* streams of the agent from here on, also of watches */
uint32_t relay_next_stream(struct keeper *k);
void relay_agent_frame(struct keeper *k, const struct frame *frame, const char *data, size_t length);
void relay_peer_data(struct keeper *k, struct peer *peer, const struct frame *frame, const char *data,
                     size_t length);
void relay_peer_end(struct keeper *k, struct peer *peer, const struct frame *frame, const char *data,
                    size_t length);
void relay_peer_close(struct keeper *k, struct peer *peer, const struct frame *frame, const char *data,
                      size_t length);
void relays_peer_gone(struct keeper *k, const struct peer *peer);
void relay_call_over(struct keeper_call *call);
void relays_pump(struct keeper *k);
void relays_reap(struct keeper *k);
void relays_free(struct keeper *k);

/* watch.c */
bool watch_knows(const struct keeper *k, uint32_t stream);
/* False: it is of no watch, and not taken. */
bool watch_agent_frame(struct keeper *k, const struct frame *frame, const char *data, size_t length);
void watch_call_over(struct keeper *k, const struct keeper_call *call);
bool watches_write(struct keeper *k); /* false: something is held; nothing is lost */
int64_t watches_deadline(const struct keeper *k);
void watches_tick(struct keeper *k, int64_t now);
bool watches_finish(struct keeper *k, const char *reason); /* as watches_write */
void watches_free(struct keeper *k);

/* server.c */
extern const struct peers_handlers server_handlers;
void server_notify(struct keeper *k, const char *id); /* of an exec or a watch */
void server_fail_calls(struct keeper *k, const struct error *err);

#endif
