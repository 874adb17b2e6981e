/* Condensing any bytes: the result is shorter or none, the same each time, and keeps failures; folding never
 * writes control bytes of a redraw, and ends. */
#include "lib/text/condense.h"
#include "lib/text/fold.h"
#include "tests/fuzz/input.h"

/* The first byte says how wide the terminal is. */
#define COLUMNS(data) ((size_t)(unsigned char)(data)[0] % 130)
#define NEEDLE        "error: needle 4711 is lost"

static void take_line(void *context, const char *data, size_t length)
{
    buffer_append(context, data, length);
    buffer_append_char(context, '\n');
}

static void check_fold(const char *data, size_t length)
{
    struct buffer shown = BUFFER_INIT;
    struct fold_sink sink = { .context = &shown, .line = take_line };
    fold(data, length, COLUMNS(data), &sink);
    holds(shown.length == 0 || memchr(shown.data, 0x1B, shown.length) == NULL);
    holds(shown.length == 0 || memchr(shown.data, '\r', shown.length) == NULL);
    buffer_free(&shown);
}

static void check_same(const char *data, size_t length)
{
    struct condensed one, two;
    condense(data, length, COLUMNS(data), "how", &one);
    condense(data, length, COLUMNS(data), "how", &two);
    holds(one.unchanged ? one.text.length == 0 : one.text.length < length);
    holds(one.unchanged == two.unchanged && one.text.length == two.text.length);
    holds(one.text.length == 0 || memcmp(one.text.data, two.text.data, one.text.length) == 0);
    condensed_free(&one);
    condensed_free(&two);
}

/* A failure on a line of its own after whole lines survives whatever is drawn behind it. */
static void check_needle(const char *data, size_t length)
{
    const char *middle = memchr(data + length / 2, '\n', length - length / 2);
    struct buffer raw = BUFFER_INIT;
    struct condensed c;
    size_t at = middle != NULL ? (size_t)(middle - data) + 1 : length;
    buffer_append(&raw, data, at);
    buffer_append_text(&raw, "\x1b\\\x18\r\n\x1b[?1049l\n" NEEDLE "\n");
    buffer_append(&raw, data + at, length - at);
    condense(raw.data, raw.length, COLUMNS(data), "how", &c);
    holds(c.unchanged || memmem(c.text.data, c.text.length, NEEDLE, strlen(NEEDLE)) != NULL);
    condensed_free(&c);
    buffer_free(&raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 1 << 16)
        return 0;
    check_fold((const char *)data, size);
    check_same((const char *)data, size);
    check_needle((const char *)data, size);
    return 0;
}
