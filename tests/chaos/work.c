/* The commands of the chaos test and what each has to write. Knows no process and no saboteur; what may be
 * missing after a death is judged here alone. */
#include "tests/chaos/work.h"

#include <signal.h>
#include <stdio.h>

/* What a seed says of one command. */
struct shape {
    unsigned count, size;
    double pause;
};
static struct shape shape_of(uint64_t seed, unsigned count, unsigned size, double most_seconds)
{
    uint64_t random = seed;
    struct shape s = { random_between(&random, 1, count), random_between(&random, 1, size), 0 };
    s.pause = random_below(&random, 1000) / 1000.0 * most_seconds / s.count;
    return s;
}

static void set_command(json_t *body, const char *format, ...) PRINTF_LIKE(2, 3);
static void set_command(json_t *body, const char *format, ...)
{
    char text[4000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    json_object_set_new(body, "command", json_string(text));
}

static void numbers(struct buffer *out, unsigned from, unsigned to, const char *end)
{
    for (unsigned k = from; k <= to; k++) {
        buffer_append_u64(out, k);
        buffer_append_text(out, end);
    }
}

/* ---- numbered lines ---- */

static struct shape lines_shape(uint64_t seed)
{
    return shape_of(seed, 60, 300, 9);
}

static void lines_body(uint64_t seed, json_t *body)
{
    struct shape s = lines_shape(seed);
    set_command(body, "for k in $(seq 1 %u); do seq $(((k-1)*%u+1)) $((k*%u)); sleep %.3f; done", s.count,
                s.size, s.size, s.pause);
}

static void lines_expect(const struct entry *e, struct buffer *out, struct buffer *err, struct buffer *late)
{
    struct shape s = lines_shape(e->seed);
    (void)err, (void)late;
    numbers(out, 1, s.count * s.size, "\n");
}

static void terminal_body(uint64_t seed, json_t *body)
{
    lines_body(seed, body);
    json_object_set_new(body, "pty", json_true());
}

static void terminal_expect(const struct entry *e, struct buffer *out, struct buffer *err,
                            struct buffer *late)
{
    struct shape s = lines_shape(e->seed);
    (void)err, (void)late;
    numbers(out, 1, s.count * s.size, "\r\n");
}

static void burst_body(uint64_t seed, json_t *body)
{
    set_command(body, "seq 1 %u", 600000 + (unsigned)(seed % 600000));
}

static void burst_expect(const struct entry *e, struct buffer *out, struct buffer *err, struct buffer *late)
{
    (void)err, (void)late;
    numbers(out, 1, 600000 + (unsigned)(e->seed % 600000), "\n");
}

/* ---- bytes ---- */

static struct shape bytes_shape(uint64_t seed)
{
    return shape_of(seed, 40, 1500, 6);
}

static uint64_t bytes_start(uint64_t seed)
{
    return (seed >> 4) | 1;
}

static void bytes_body(uint64_t seed, json_t *body)
{
    struct shape s = bytes_shape(seed);
    set_command(body,
                "python3 -c '\nimport os,time\nx=%llu;m=(1<<64)-1\nfor i in range(%u):\n b=bytearray()\n"
                " for j in range(%u):\n  x^=(x<<13)&m;x^=x>>7;x^=(x<<17)&m\n  b+=x.to_bytes(8,\"little\")\n"
                " v=memoryview(b)\n while v: v=v[os.write(1,v):]\n time.sleep(%.3f)'",
                (unsigned long long)bytes_start(seed), s.count, s.size, s.pause);
}

static void bytes_expect(const struct entry *e, struct buffer *out, struct buffer *err, struct buffer *late)
{
    struct shape s = bytes_shape(e->seed);
    uint64_t x = bytes_start(e->seed);
    (void)err, (void)late;
    for (unsigned k = 0; k < s.count * s.size; k++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        buffer_append(out, &x, 8);
    }
}

/* Characters that are written in pieces, some of them after a pause longer than any is waited for. */
#define TEXT_LINE "line %u \303\244\342\202\254\360\237\230\200\360\235\204\236 end\n"

static void text_body(uint64_t seed, json_t *body)
{
    struct shape s = shape_of(seed, 30, 7, 5);
    set_command(body,
                "python3 -c '\nimport os,time\nfor k in range(%u):\n"
                " b=(\"line %%u \\u00e4\\u20ac\\U0001F600\\U0001D11E end\\n\" %% k).encode()\n"
                " for i in range(0,len(b),%u): os.write(1,b[i:i+%u]); time.sleep(%.4f)'",
                s.count, s.size, s.size, s.pause / 8);
}

static void text_expect(const struct entry *e, struct buffer *out, struct buffer *err, struct buffer *late)
{
    struct shape s = shape_of(e->seed, 30, 7, 5);
    (void)err, (void)late;
    for (unsigned k = 0; k < s.count; k++)
        buffer_printf(out, TEXT_LINE, k);
}

/* ---- two streams ---- */

static void both_body(uint64_t seed, json_t *body)
{
    struct shape s = shape_of(seed, 400, 20, 5);
    set_command(
        body,
        "for k in $(seq 1 %u); do echo \"out $k\"; echo \"err $k\" >&2; if [ $((k %% %u)) = 0 ]; then "
        "sleep %.3f; fi; done",
        s.count, s.size, s.pause);
}

static void both_expect(const struct entry *e, struct buffer *out, struct buffer *err, struct buffer *late)
{
    struct shape s = shape_of(e->seed, 400, 20, 5);
    (void)late;
    for (unsigned k = 1; k <= s.count; k++) {
        buffer_printf(out, "out %u\n", k);
        buffer_printf(err, "err %u\n", k);
    }
}

static void merged_body(uint64_t seed, json_t *body)
{
    both_body(seed, body);
    json_object_set_new(body, "merge_stderr", json_true());
}

static void merged_expect(const struct entry *e, struct buffer *out, struct buffer *err, struct buffer *late)
{
    struct shape s = shape_of(e->seed, 400, 20, 5);
    (void)err, (void)late;
    for (unsigned k = 1; k <= s.count; k++)
        buffer_printf(out, "out %u\nerr %u\n", k, k);
}

/* ---- input ---- */

void work_piece(const struct entry *e, unsigned number, struct buffer *out)
{
    uint64_t random = e->seed + number;
    buffer_printf(out, "piece %u ", number);
    for (unsigned k = random_between(&random, 1, 300); k > 0; k--)
        buffer_append_char(out, (char)('a' + random_below(&random, 26)));
    buffer_append_char(out, '\n');
}

unsigned work_pieces(const struct entry *e)
{
    uint64_t random = e->seed;
    return random_between(&random, 1, PIECES_MAX);
}

static void echo_body(uint64_t seed, json_t *body)
{
    (void)seed;
    set_command(body, "cat");
}

static void reply_body(uint64_t seed, json_t *body)
{
    (void)seed;
    set_command(body, "stty -echo -onlcr; echo ready; while read -r l; do echo \"got $l\"; done");
    json_object_set_new(body, "pty", json_true());
}

/* ---- ends ---- */

static void code_body(uint64_t seed, json_t *body)
{
    set_command(body, "echo going; exit %u", (unsigned)(seed % 200));
}

static void code_expect(const struct entry *e, struct buffer *out, struct buffer *err, struct buffer *late)
{
    (void)e, (void)err, (void)late;
    buffer_append_text(out, "going\n");
}

static void killed_body(uint64_t seed, json_t *body)
{
    (void)seed;
    set_command(body, "echo going; kill -9 $$");
}

static void late_body(uint64_t seed, json_t *body)
{
    (void)seed;
    set_command(body, "(sleep 0.3; echo late one; sleep 0.3; echo late two) & echo going");
}

static void late_expect(const struct entry *e, struct buffer *out, struct buffer *err, struct buffer *late)
{
    code_expect(e, out, err, late);
    buffer_append_text(late, "late one\nlate two\n");
}

static void timed_body(uint64_t seed, json_t *body)
{
    set_command(body, "echo going; sleep 100");
    json_object_set_new(body, "timeout_seconds", json_integer(1 + (json_int_t)(seed % 3)));
}

static void cancel_body(uint64_t seed, json_t *body)
{
    (void)seed;
    set_command(body, "echo ready; exec sleep 300");
}

static void ready_expect(const struct entry *e, struct buffer *out, struct buffer *err, struct buffer *late)
{
    (void)e, (void)err, (void)late;
    buffer_append_text(out, WORK_READY_TEXT);
}

int work_signal(const struct entry *e)
{
    static const int signals[] = { SIGTERM, SIGKILL, SIGINT, SIGHUP };
    return signals[e->seed % N_ELEMENTS(signals)];
}

static int code_of(const struct entry *e)
{
    return (int)(e->seed % 200);
}

static int code_killed(const struct entry *e)
{
    (void)e;
    return -SIGKILL;
}

static int code_timed(const struct entry *e)
{
    (void)e;
    return -SIGTERM;
}

static int code_cancel(const struct entry *e)
{
    return -work_signal(e);
}

/* ---- the table ---- */

static const struct kind {
    const char *name;
    unsigned weight, flags;
    void (*body)(uint64_t seed, json_t *body);
    void (*expect)(const struct entry *e, struct buffer *out, struct buffer *err,
                   struct buffer *late); /* NULL = by pieces */
    int (*code)(const struct entry *e);  /* NULL = 0 */
    const char *before, *piece;          /* by pieces: what comes first, and before each */
} kinds[] = {
    { .name = "lines", .weight = 10, .body = lines_body, .expect = lines_expect },
    { .name = "terminal", .weight = 6, .body = terminal_body, .expect = terminal_expect },
    { .name = "bytes", .weight = 8, .body = bytes_body, .expect = bytes_expect },
    { .name = "text", .weight = 5, .body = text_body, .expect = text_expect },
    { .name = "both", .weight = 6, .body = both_body, .expect = both_expect },
    { .name = "merged", .weight = 4, .body = merged_body, .expect = merged_expect },
    { .name = "echo", .weight = 7, .flags = WORK_INPUT, .body = echo_body, .before = "", .piece = "" },
    { .name = "reply",
      .weight = 5,
      .flags = WORK_INPUT | WORK_READY,
      .body = reply_body,
      .before = WORK_READY_TEXT,
      .piece = "got " },
    { .name = "code", .weight = 4, .body = code_body, .expect = code_expect, .code = code_of },
    { .name = "killed", .weight = 2, .body = killed_body, .expect = code_expect, .code = code_killed },
    { .name = "late", .weight = 3, .flags = WORK_LATE, .body = late_body, .expect = late_expect },
    { .name = "burst", .weight = 2, .flags = WORK_LONG, .body = burst_body, .expect = burst_expect },
    { .name = "timed",
      .weight = 3,
      .flags = WORK_TIMED,
      .body = timed_body,
      .expect = code_expect,
      .code = code_timed },
    { .name = "cancel",
      .weight = 4,
      .flags = WORK_READY | WORK_CANCEL,
      .body = cancel_body,
      .expect = ready_expect,
      .code = code_cancel },
};

unsigned work_flags(int kind)
{
    return kinds[kind].flags;
}

const char *work_name(int kind)
{
    return kinds[kind].name;
}

int work_choose(uint64_t *random)
{
    unsigned sum = 0;
    for (size_t i = 0; i < N_ELEMENTS(kinds); i++)
        sum += kinds[i].weight;
    unsigned at = random_below(random, sum);
    for (size_t i = 0; i < N_ELEMENTS(kinds); at -= kinds[i++].weight)
        if (at < kinds[i].weight)
            return (int)i;
    return 0;
}

json_t *work_body(int kind, uint64_t seed)
{
    json_t *body = json_object();
    kinds[kind].body(seed, body);
    return body;
}

/* Of pieces of which it is not known whether they arrived, those that stand in seen are taken. */
static void expect_pieces(const struct entry *e, const struct buffer *seen, struct buffer *out)
{
    const struct kind *k = &kinds[e->kind];
    unsigned pieces = atomic_load(&e->pieces);
    uint64_t doubtful = atomic_load(&e->doubtful);
    buffer_append_text(out, k->before);
    for (unsigned n = 0; n < pieces; n++) {
        _cleanup_buffer_ struct buffer piece = BUFFER_INIT;
        buffer_append_text(&piece, k->piece);
        work_piece(e, n, &piece);
        size_t at = out->length, left = seen->length > at ? seen->length - at : 0;
        bool there = left >= piece.length ? memcmp(seen->data + at, piece.data, piece.length) == 0
                                          : left > 0 && memcmp(seen->data + at, piece.data, left) == 0;
        if (!(doubtful >> n & 1) || there)
            buffer_append(out, piece.data, piece.length);
    }
}

void work_expect(const struct entry *e, const struct buffer *seen, struct buffer *out, struct buffer *err,
                 struct buffer *late)
{
    if (kinds[e->kind].expect)
        kinds[e->kind].expect(e, out, err, late);
    else
        expect_pieces(e, seen, out);
}

int work_code(const struct entry *e)
{
    return kinds[e->kind].code ? kinds[e->kind].code(e) : 0;
}
