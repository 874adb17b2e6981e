/* A live keeper between an agent and workers, each of whom says anything: frames well made and not, requests
 * of every operation, time that passes, ends in every order. In the end each exec has one final event, its
 * log has no gap and the store is sound.
 *
 * An input is a row of steps: kind, number, then what the kind needs. Linked with --wrap for the clock. */
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/keeper/internal.h"
#include "lib/op/op.h"
#include "lib/schema/field.h"
#include "lib/store/watches.h"
#include "tests/fuzz/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#define WORKSPACE "ws-00000000000000000000000000000000"

enum { WORKERS = 2, EXECS = 64 };

static char directory[] = "/dev/shm/wsf-fuzz-XXXXXX";
static struct config *config;
static struct keeper_options options;
static struct keeper k;
static struct input steps;
static int agent, workers[WORKERS];
static char execs[EXECS][ID_SIZE];
static size_t exec_count;
static int64_t later_ms, oom_count;

int64_t __real_clock_boottime_ms(void);
int64_t __wrap_clock_boottime_ms(void);
int64_t __wrap_clock_boottime_ms(void)
{
    return __real_clock_boottime_ms() + later_ms;
}

/* ---- a driver without a sandbox ---- */

static int no_watch(struct sandbox *sandbox)
{
    (void)sandbox;
    return -1;
}

static int ended(const struct config *c, struct sandbox *sandbox, const json_t *handle,
                 struct sandbox_status *ret, struct error *err)
{
    (void)c;
    (void)sandbox;
    (void)handle;
    (void)err;
    *ret = (struct sandbox_status){ .has_returncode = true, .returncode = -9 };
    return 0;
}

static int end_it(const struct config *c, struct sandbox *sandbox, const json_t *handle, struct error *err)
{
    (void)c;
    (void)sandbox;
    (void)handle;
    (void)err;
    memory_close_fd(&agent);
    agent = -1;
    return 0;
}

static int64_t count_kills(struct sandbox *sandbox)
{
    (void)sandbox;
    return oom_count;
}

static int watch_limits(struct sandbox *sandbox, bool *ret_killed, struct error *err)
{
    (void)sandbox;
    (void)err;
    *ret_killed = false;
    return 100;
}

static const struct driver driver = { .name = "none",
                                      .watch_fd = no_watch,
                                      .inspect = ended,
                                      .terminate = end_it,
                                      .enforce = watch_limits,
                                      .oom_kills = count_kills };

/* ---- steps ---- */

static void send_bytes(int fd, const void *data, size_t length)
{
    if (fd >= 0)
        (void)!send(fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_frame(int fd, uint8_t type, uint8_t flags, uint32_t stream, const void *data, size_t length)
{
    char header[FRAME_HEADER_SIZE];
    const struct frame frame = { .stream = stream, .length = (uint32_t)length, .type = type, .flags = flags };
    frame_encode_header(header, &frame);
    send_bytes(fd, header, sizeof(header));
    send_bytes(fd, data, length);
}

static const char *exec_at(uint8_t number)
{
    return exec_count > 0 ? execs[number % exec_count] : "ex-00000000000000000000000000000000";
}

/* The newest one. */
static const char *watch_there(void)
{
    static struct watch_head head;
    bool any = watches_list(events_writer_reader(k.events), 0, &head, 1, NULL) > 0;
    return any ? head.id : "fw-00000000000000000000000000000000";
}

static int worker_at(uint8_t number)
{
    return workers[number % WORKERS];
}

/* Execs have small numbers, calls on files those from RELAY_STREAMS on. */
static uint32_t agent_stream(uint8_t number)
{
    return number & 0x80 ? RELAY_STREAMS | (number & 0x7fu) : number;
}

/* Requests have numbers from 1000 on, so have the bytes that belong to one. */
static uint32_t worker_stream(uint8_t number)
{
    return number & 0x80 ? 1000u + (number & 0x7fu) : number;
}

static void step_agent(uint8_t stream)
{
    uint8_t type = input_u8(&steps), flags = input_u8(&steps);
    size_t length;
    const char *data = input_bytes(&steps, input_u8(&steps), &length);
    send_frame(agent, type, flags, agent_stream(stream), data, length);
}

static void step_agent_text(uint8_t stream)
{
    uint8_t type = input_u8(&steps);
    size_t length;
    const char *data = input_line(&steps, &length);
    send_frame(agent, type, 0, agent_stream(stream), data, length > FRAME_PAYLOAD_MAX ? FRAME_PAYLOAD_MAX : length);
}

static void step_agent_raw(uint8_t length)
{
    size_t got;
    const char *data = input_bytes(&steps, length, &got);
    send_bytes(agent, data, got);
}

static void step_worker(uint8_t number)
{
    uint8_t type = input_u8(&steps), flags = input_u8(&steps), stream = input_u8(&steps);
    size_t length;
    const char *data = input_bytes(&steps, input_u8(&steps), &length);
    if (type == FRAME_SUBSCRIBE && length == 1)
        send_frame(worker_at(number), type, 0, stream, exec_at((uint8_t)data[0]), ID_SIZE - 1);
    else
        send_frame(worker_at(number), type, flags, worker_stream(stream), data, length);
}

static void step_request(uint8_t number)
{
    size_t ops_there = 0, length;
    uint8_t which = input_u8(&steps), exec = input_u8(&steps);
    const char *data = input_line(&steps, &length);
    do
        ops_there++;
    while (ops[ops_there] != NULL);
    const struct op *op = ops[which % ops_there];
    json_auto_t *given = field_parse_json(data, length, NULL);
    json_t *checked = NULL;
    if (json_is_object(given)) {
        json_object_set_new(given, "workspace_id", json_string(WORKSPACE));
        if (field_find(op->params, "exec_id") != NULL)
            json_object_set_new(given, "exec_id", json_string(exec_at(exec)));
        if (field_find(op->params, "watch_id") != NULL)
            json_object_set_new(given, "watch_id", json_string(watch_there()));
        field_check(op->params, "body", NULL, given, &checked,
                    NULL); /* as a worker does; what is not right goes too */
    }
    json_t *in = checked != NULL ? checked : given != NULL ? json_incref(given) : json_null();
    json_auto_t *message = json_pack("{s:s, s:o, s:s, s:s}", "operation", op->id, "in", in, "principal",
                                     "owner", "request_id", "r");
    if (number & 0x40) {
        json_object_set_new(message, "streams", json_true());
        json_object_set_new(message, "data", json_integer(number & 2 ? 5 : -1));
    }
    if (number & 0x80) {
        json_object_set_new(message, "key", json_sprintf("key-%u", number & 3u));
        json_object_set_new(message, "digest", json_sprintf("%u", number & 4u));
    }
    char *text = json_dumps(message, JSON_COMPACT);
    holds(text != NULL);
    send_frame(worker_at(number), FRAME_REQUEST, 0, 1000u + number, text,
               strlen(text) > FRAME_PAYLOAD_MAX ? FRAME_PAYLOAD_MAX : strlen(text));
    free(text);
}

static void step_time(uint8_t number)
{
    later_ms += (int64_t)number * number * 10;
    oom_count += number & 1;
}

static void step_leave(uint8_t number)
{
    int *fd = number & 0x10 ? &agent : &workers[number % WORKERS];
    memory_close_fd(fd);
    *fd = -1;
}

static void (*const kinds[])(uint8_t) = { step_agent,   step_agent_text, step_agent_raw, step_worker,
                                          step_request, step_request,    step_time,      step_leave };

/* ---- one life ---- */

static void drain(int fd)
{
    static char sink[1 << 16];
    while (fd >= 0 && recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
        ;
}

/* Streams are small numbers, so an exec is known by its place in the keeper's list. */
static void note_execs(void)
{
    for (const struct exec *e = k.execs; e != NULL; e = e->next) {
        bool known = false;
        for (size_t i = 0; i < exec_count && !known; i++)
            known = strcmp(execs[i], e->now.head.id) == 0;
        if (!known && exec_count < EXECS)
            memcpy(execs[exec_count++], e->now.head.id, ID_SIZE);
    }
}

static void turn(void)
{
    reactor_turn(k.reactor, 0);
    life_tick(&k);
    box_flush(&k);
    peers_flush(k.peers);
    note_execs();
    drain(agent);
    for (int i = 0; i < WORKERS; i++)
        drain(workers[i]);
}

static void leave(void)
{
    state_close(k.state);
    config_free(config);
    io_remove_tree(AT_FDCWD, directory, NULL);
}

static void begin_all(void)
{
    log_init("fuzz", LOG_LEVEL_ERROR, "/dev/null");
    signal(SIGPIPE, SIG_IGN);
    holds(mkdtemp(directory) != NULL);
    _cleanup_free_ char *state = xasprintf("WORKSPACE_STATE_DIR=%s", directory);
    const char *overrides[] = { state, "WORKSPACE_EVENT_LOG_BYTES=65536", "WORKSPACE_EVENT_MAP_BYTES=1048576",
                                NULL };
    _cleanup_error_ struct error err = ERROR_INIT;
    config = config_load(NULL, overrides, &err);
    if (config == NULL)
        fprintf(stderr, "%s\n", err.message);
    holds(config != NULL && (k.state = state_open(directory, NULL)) != NULL);
    static const char *const names[] = { "run", "trash", "events", "workspaces" };
    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        _cleanup_free_ char *path = config_path(config, names[i], NULL);
        holds(io_ensure_directory(path, 0700, NULL) == 0);
    }
    atexit(leave);
}

static void begin_record(void)
{
    json_t *record =
        json_pack("{s:i, s:s, s:s, s:s, s:{s:i, s:i, s:{s:s}}, s:s}", "v", 1, "workspace_id", WORKSPACE,
                  "owner", "owner", "state", "running", "spec", "timeout_seconds", 3600,
                  "idle_timeout_seconds", 600, "env", "A", "b", "repo_path", "/workspace/repo");
    holds(state_create_workspace(k.state, record, NULL, 10, 0, 0, NULL, NULL) == 0);
    k.record = record;
}

static void begin(void)
{
    int fds[2];
    struct state *state = k.state;
    options = (struct keeper_options){
        .config = config, .workspace_id = WORKSPACE, .spec_fd = -1, .ready_fd = -1, .dispatch = op_keep
    };
    k = (struct keeper){ .options = &options,
                         .config = config,
                         .driver = &driver,
                         .workspace_id = WORKSPACE,
                         .lock_fd = -1,
                         .signal_fd = -1,
                         .state = state };
    exec_count = 0;
    oom_count = 0;
    begin_record();
    const struct events_options logs = { config->state_dir, WORKSPACE, config->event_map_bytes,
                                         config->event_log_bytes };
    k.events = events_writer_open(&logs, NULL);
    holds(k.events != NULL);
    k.flusher = flusher_new(k.events);
    k.reactor = reactor_new(NULL);
    holds(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    k.agent = channel_new(fds[0]);
    agent = fds[1];
    _cleanup_free_ char *path = config_path(config, "run/" WORKSPACE ".sock", NULL);
    k.peers = peers_listen(k.reactor, path, config->state_dir, &server_handlers, &k, NULL);
    holds(k.peers != NULL);
    for (int i = 0; i < WORKERS; i++)
        holds((workers[i] = io_connect_unix(path, NULL)) >= 0);
    box_watch(&k);
    life_begin(&k);
}

static void greet(void)
{
    const char hello[] = "WSF1\0\1\0\1";
    send_frame(agent, FRAME_HELLO, 0, 0, hello, 8);
    for (int i = 0; i < WORKERS; i++)
        send_frame(workers[i], FRAME_HELLO, 0, 0, hello, 8);
}

/* ---- the end ---- */

static bool take(void *user, const struct event *event)
{
    uint64_t *last = user;
    holds(*last == 0 || event->seq == *last + 1);
    *last = event->seq;
    return true;
}

static void check_exec(struct events_reader *r, const char *id)
{
    struct exec_head head;
    uint64_t last = 0;
    if (events_read(r, id, 0, &head, take, &last, NULL) < 0)
        return; /* pruned */
    holds(last == head.last_seq && head.exit_seq != 0 && exec_state_is_terminal(head.state));
}

static bool take_change(void *user, const struct event *event)
{
    uint64_t *next = user;
    holds(event->seq == *next && event->length > 0);
    ++*next;
    return true;
}

static void check_watches(struct events_reader *r)
{
    static struct watch_head heads[256];
    long count = watches_list(r, 0, heads, N_ELEMENTS(heads), NULL);
    holds(count >= 0);
    for (long i = 0; i < count; i++) {
        uint64_t next = heads[i].base;
        holds(exec_state_is_terminal(heads[i].state) && heads[i].finished_us != 0);
        holds(watches_read(r, heads[i].id, 0, &heads[i], take_change, &next, NULL) == 0);
        holds(next == heads[i].next);
    }
}

static void check_logs(void)
{
    struct events_cache *cache = events_cache_new(config->state_dir, 4);
    struct events_reader *r = events_cache_get(cache, WORKSPACE, NULL);
    holds(r != NULL && events_verify(r, NULL) == 0);
    for (size_t i = 0; i < exec_count; i++)
        check_exec(r, execs[i]);
    check_watches(r);
    events_cache_free(cache);
}

static void end(void)
{
    bool removed = k.stop.remove;
    if (!k.stop.wanted)
        stop_want(&k, "stopped", "over");
    stop_now(&k);
    while (k.execs != NULL) {
        struct exec *e = k.execs;
        k.execs = e->next;
        live_free(e);
    }
    relays_free(&k);
    watches_free(&k);
    holds(k.calls == NULL);
    journal_free(&k.journal);
    peers_free(k.peers);
    holds(k.subscriptions == NULL && k.subscription_count == 0);
    channel_free(k.agent);
    reactor_remove(k.agent_source);
    reactor_free(k.reactor);
    flusher_free(k.flusher);
    if (k.events != NULL)
        events_writer_close(k.events);
    json_decref(k.record);
    for (int i = 0; i < WORKERS; i++)
        memory_close_fd(&workers[i]);
    memory_close_fd(&agent);
    if (!removed)
        check_logs();
    state_remove_workspace(k.state, WORKSPACE, true, NULL);
    static const char *const names[] = { "events", "trash", "workspaces" };
    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        _cleanup_free_ char *path = config_path(config, names[i], NULL);
        io_remove_tree(AT_FDCWD, path, NULL);
        io_ensure_directory(path, 0700, NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 20000)
        return 0;
    if (config == NULL)
        begin_all();
    begin();
    steps = (struct input){ data, size };
    if (input_u8(&steps) & 1)
        greet();
    while (steps.left > 0 && !k.stop.wanted) {
        uint8_t kind = input_u8(&steps);
        kinds[kind % N_ELEMENTS(kinds)](input_u8(&steps));
        if ((kind & 0x40) == 0)
            turn();
    }
    for (int i = 0; i < 3 && !k.stop.wanted; i++)
        turn();
    end();
    return 0;
}
