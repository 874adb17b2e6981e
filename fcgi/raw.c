/* Owns the flow of bytes of one call: what waits on either side is bounded, and what a side has not taken is
 * not asked for. It knows neither files nor HTTP's connections. */
#include "fcgi/raw.h"

#define QUEUED_MOST                                                                                          \
    (512u << 10) /* for a client that does not take them, then the keeper is given no credit */

struct raw {
    struct buffer up; /* of the request's body: not taken by the keeper yet */
    bool up_ends, up_ended;
    bool answered;
    int64_t size; /* of a file that has not the range asked for */
    size_t owed;  /* bytes of the answer whose credit the keeper has not back */
};

static bool is_upload(const struct flight *f)
{
    return strcmp(f->op->method, "PUT") == 0;
}

void raw_begin(struct flight *f)
{
    f->raw = xcalloc(1, sizeof(*f->raw));
    if (is_upload(f))
        keeper_client_want_room(f->service->client, f->number);
}

void raw_forget(struct flight *f)
{
    if (!f->raw)
        return;
    buffer_free(&f->raw->up);
    free(STEAL(f->raw));
}

/* ---- from the client ---- */

static void push(struct flight *f)
{
    struct raw *raw = f->raw;
    struct keeper_client *client = f->service->client;
    size_t room;
    while (raw->up.length > 0 && (room = keeper_client_room(client, f->number)) > 0) {
        size_t piece = raw->up.length < room ? raw->up.length : room;
        keeper_client_send(client, f->number, raw->up.data, piece);
        buffer_consume(&raw->up, piece);
    }
    if (raw->up.length > 0 || keeper_client_room(client, f->number) == 0)
        keeper_client_want_room(client, f->number);
    if (raw->up.length == 0 && raw->up_ends && !raw->up_ended) {
        raw->up_ended = true;
        keeper_client_send_end(client, f->number);
    }
}

void raw_take(struct flight *f, const char *data, size_t length, bool last)
{
    struct raw *raw = f->raw;
    if (!raw || raw->answered)
        return;
    buffer_append(&raw->up, data, length);
    raw->up_ends |= last;
    push(f);
    if (raw->up.length > 0)
        f->sink->take_body(f->user, false);
}

static void on_room(void *user)
{
    struct flight *f = user;
    push(f);
    if (f->raw->up.length == 0)
        f->sink->take_body(f->user, true);
}

/* ---- from the keeper ---- */

static void refuse_range(struct flight *f, const json_t *head)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    f->raw->size = json_integer_value(json_object_get(head, "size"));
    error_set(&err, ERROR_RANGE, "the file has %lld bytes: none of them is in this range",
              (long long)f->raw->size);
    dispatch_finish(f, NULL, 0, &err);
}

void raw_answer(void *user, const json_t *ret, const struct error *err)
{
    struct flight *f = user;
    f->raw->answered = true;
    if (err) {
        f->number = 0;
        dispatch_finish(f, NULL, 0, err);
    } else if (is_upload(f)) {
        dispatch_keep(f, ret);
    } else if (json_is_true(json_object_get(ret, "unsatisfiable"))) {
        refuse_range(f, ret);
    } else {
        f->sink->head(f->user, f, ret);
    }
}

static void give_back(struct flight *f)
{
    size_t owed = f->raw->owed;
    f->raw->owed = 0;
    keeper_client_grant(f->service->client, f->number, owed);
}

static void on_data(void *user, const char *data, size_t length)
{
    struct flight *f = user;
    f->sink->piece(f->user, f, data, length);
    f->raw->owed += length;
    if (f->sink->queued(f->user) > QUEUED_MOST)
        f->blocked = true;
    else if (!f->blocked)
        give_back(f);
}

void raw_drained(struct flight *f)
{
    if (f->raw && f->raw->owed > 0)
        give_back(f);
}

static void on_end(void *user, bool whole)
{
    struct flight *f = user;
    _cleanup_error_ struct error err = ERROR_INIT;
    f->number = 0;
    error_set(&err, ERROR_UNAVAILABLE, "the file could not be read to its end");
    dispatch_finish(f, "", 0, whole ? NULL : &err);
}

const struct keeper_transfer raw_transfer = { .room = on_room, .data = on_data, .end = on_end };

/* ---- headers ---- */

void raw_error_headers(const struct flight *f, const struct error *err, struct buffer *out)
{
    if (f->raw && err->code == ERROR_RANGE)
        buffer_printf(out, "Content-Range: bytes */%lld\r\n", (long long)f->raw->size);
}

int raw_headers(const json_t *head, struct buffer *out)
{
    long long first = json_integer_value(json_object_get(head, "first"));
    long long length = json_integer_value(json_object_get(head, "length"));
    long long size = json_integer_value(json_object_get(head, "size"));
    const char *tag = json_string_value(json_object_get(head, "tag"));
    /* From the sandbox: nothing else gets into a header. */
    if (tag && *tag && tag[strspn(tag, "abcdefghijklmnopqrstuvwxyz0123456789:")] == '\0')
        buffer_printf(out, "ETag: \"%.90s\"\r\n", tag);
    buffer_append_text(out, "Accept-Ranges: bytes\r\n");
    if (json_is_true(json_object_get(head, "known")))
        return 304;
    buffer_printf(out, "Content-Length: %lld\r\n", length);
    if (!json_is_true(json_object_get(head, "partial")))
        return 200;
    buffer_printf(out, "Content-Range: bytes %lld-%lld/%lld\r\n", first, first + length - 1, size);
    return 206;
}
