/* The warden whole, and workers that say anything: requests well made and not, connections that come and go.
 * No keeper is ever started. An input is a row of steps: kind, number of the connection, then what the kind
 * needs. Linked with --wrap for the turn of its loop and the start of its children. */
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/warden/internal.h"
#include "tests/fuzz/input.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

enum { PEERS = 3, TURNS_AFTER = 4 };

static char directory[] = "/dev/shm/wsf-fuzz-XXXXXX";
static struct config *config;
static struct input steps;
static struct channel *peers[PEERS];
static size_t asked[PEERS], answered[PEERS];
static int after;

struct child *__wrap_child_start(struct warden *w, enum child_kind kind, struct place *place,
                                 const json_t *spec, struct error *err);
struct child *__wrap_child_start(struct warden *w, enum child_kind kind, struct place *place,
                                 const json_t *spec, struct error *err)
{
    (void)w;
    holds((place != NULL) == (kind != CHILD_SWEEP && kind != CHILD_TRASH));
    holds(place == NULL || id_is_valid(ID_WORKSPACE, place->id));
    if (spec != NULL) {
        char *text = json_dumps(spec, JSON_COMPACT);
        holds(text != NULL && json_is_object(json_object_get(spec, "record")));
        free(text);
    }
    error_set(err, ERROR_DRIVER, "no children here");
    return NULL;
}

/* ---- steps ---- */

static void connect_to(uint8_t number)
{
    _cleanup_free_ char *path = config_path(config, "run/warden.sock", NULL);
    struct channel **at = &peers[number % PEERS];
    channel_free(*at);
    *at = NULL;
    asked[number % PEERS] = answered[number % PEERS] = 0;
    int fd = io_connect_unix(path, NULL);
    if (fd >= 0)
        *at = channel_new(fd);
    if (*at != NULL)
        channel_write(*at, NULL);
}

static void send_request(uint8_t number, const char *text, size_t length)
{
    struct channel *c = peers[number % PEERS];
    if (c == NULL)
        return;
    channel_send(c, FRAME_REQUEST, 0, 1u + number, text, length);
    asked[number % PEERS]++;
}

static void step_request(uint8_t number)
{
    size_t length;
    const char *text = input_line(&steps, &length);
    send_request(number, text, length);
}

static void step_known(uint8_t number)
{
    static const char *const known[] = { "start", "remove", "ping", "create" };
    char text[200], id[ID_SIZE];
    uint8_t which = input_u8(&steps);
    snprintf(id, sizeof(id), "ws-%032x", (which >> 2) & 7u);
    int length =
        which & 0x20
            ? snprintf(text, sizeof(text), "{\"op\":\"%s\",\"workspace_id\":\"%s\"}", known[which & 3], id)
            : snprintf(text, sizeof(text), "{\"op\":\"%s\",\"record\":{\"workspace_id\":\"%s\"}}",
                       known[which & 3], id);
    send_request(number, text, (size_t)length);
}

static void step_frame(uint8_t number)
{
    uint8_t type = input_u8(&steps), stream = input_u8(&steps);
    size_t length;
    const char *data = input_bytes(&steps, input_u8(&steps), &length);
    struct channel *c = peers[number % PEERS];
    if (c != NULL && type > FRAME_CREDIT && type != FRAME_DATA && type < FRAME_TYPE_COUNT &&
        type != FRAME_REQUEST)
        channel_send(c, (enum frame_type)type, 0, stream, data, length);
}

static void step_raw(uint8_t number)
{
    size_t length;
    const char *data = input_bytes(&steps, input_u8(&steps), &length);
    struct channel *c = peers[number % PEERS];
    if (c != NULL && send(channel_fd(c), data, length, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        asked[number % PEERS] = SIZE_MAX / 2; /* what that is nobody knows */
}

static void (*const kinds[])(uint8_t) = { step_request, step_known, step_frame, step_raw, connect_to };

static void hear(void *user, const struct frame *frame, const char *data, size_t length)
{
    size_t number = (size_t)(uintptr_t)user;
    holds(frame->type == FRAME_REPLY && ++answered[number] <= asked[number]);
    json_auto_t *reply = json_loadb(data, length, JSON_ALLOW_NUL, NULL);
    holds(json_object_get(reply, "error") != NULL || json_object_get(reply, "ret") != NULL);
}

static void hear_all(void)
{
    for (size_t i = 0; i < PEERS; i++) {
        if (peers[i] == NULL)
            continue;
        channel_write(peers[i], NULL);
        if (channel_read(peers[i], 1 << 20, hear, (void *)(uintptr_t)i, NULL) != 0) {
            channel_free(peers[i]);
            peers[i] = NULL;
        }
    }
}

void __real_reactor_turn(struct reactor *r, int64_t deadline_ms);
void __wrap_reactor_turn(struct reactor *r, int64_t deadline_ms);
void __wrap_reactor_turn(struct reactor *r, int64_t deadline_ms)
{
    (void)deadline_ms;
    if (steps.left > 0) {
        uint8_t kind = input_u8(&steps);
        kinds[kind % N_ELEMENTS(kinds)](input_u8(&steps));
    } else if (after++ == TURNS_AFTER) {
        raise(SIGTERM);
    }
    holds(after < 100);
    hear_all();
    __real_reactor_turn(r, 0);
}

/* ---- one life ---- */

static void leave(void)
{
    config_free(config);
    io_remove_tree(AT_FDCWD, directory, NULL);
}

static void begin(void)
{
    log_init("fuzz", LOG_LEVEL_ERROR, "/dev/null");
    holds(mkdtemp(directory) != NULL);
    _cleanup_free_ char *state = xasprintf("WORKSPACE_STATE_DIR=%s", directory);
    const char *overrides[] = { state, NULL };
    config = config_load(NULL, overrides, NULL);
    holds(config != NULL);
    atexit(leave);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sigset_t old;
    if (size > 20000)
        return 0;
    if (config == NULL)
        begin();
    steps = (struct input){ data, size };
    after = 0;
    sigprocmask(SIG_BLOCK, NULL, &old);
    holds(warden_run(config, "/bin/false", 0) == 0);
    sigprocmask(SIG_SETMASK, &old, NULL);
    for (size_t i = 0; i < PEERS; i++) {
        channel_free(peers[i]);
        peers[i] = NULL;
    }
    return 0;
}
