/* Edits of any bytes: what comes out is what the plain implementation makes, and outside of the spans nothing
 * changes; its diff says the same. */
#include "lib/agent/edit/diff.h"
#include "tests/fuzz/input.h"
#include "tests/support/plain_edit.h"
#include "tests/support/plain_patch.h"

enum { EDITS_MOST = 4, SIZE_MOST = 600, LIMIT = 1 << 20 };

static void check_spans(struct bytes file, const struct edit_result *result)
{
    size_t at = 0, new_at = 0;
    for (size_t i = 0; i <= result->span_count; i++) {
        struct edit_span end = { file.length, 0, result->bytes.length, 0 };
        struct edit_span span = i == result->span_count ? end : result->spans[i];
        holds(span.old_at >= at && span.new_at >= new_at && span.old_at - at == span.new_at - new_at);
        holds(span.old_at == at ||
              memcmp(file.data + at, result->bytes.data + new_at, span.old_at - at) == 0);
        at = span.old_at + span.old_length;
        new_at = span.new_at + span.new_length;
        holds(at <= file.length && new_at <= result->bytes.length);
    }
}

static void check_diff(struct bytes file, const struct edit_result *result, size_t limit)
{
    struct buffer diff = BUFFER_INIT, made = BUFFER_INIT;
    struct bytes new = { result->bytes.data, result->bytes.length };
    diff_append(file, new, result->spans, result->span_count, "f", LIMIT, &diff);
    holds(plain_patch(file, (struct bytes){ diff.data, diff.length }, &made));
    holds(bytes_equal((struct bytes){ made.data, made.length }, new));
    diff.length = 0;
    diff_append(file, new, result->spans, result->span_count, "f", limit, &diff);
    holds(diff.length <= limit + 150);
    buffer_free(&diff);
    buffer_free(&made);
}

static struct bytes take(struct input *in, size_t most)
{
    struct bytes part;
    part.data = input_bytes(in, input_u8(in) % (most + 1), &part.length);
    return part;
}

/* Marks in edits are told of by cases. */
static bool has_mark(struct bytes text)
{
    return memmem(text.data, text.length, "\xEF\xBB\xBF", 3) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = { data, size };
    struct edit edits[EDITS_MOST];
    struct edit_result result = EDIT_RESULT_INIT;
    struct buffer plain = BUFFER_INIT;
    size_t count = input_u8(&in) % EDITS_MOST + 1;
    if (size < 4 || size > SIZE_MOST)
        return 0;
    for (size_t i = 0; i < count; i++) {
        unsigned how = input_u8(&in);
        struct bytes old = take(&in, 63), new = take(&in, 63);
        edits[i] = (struct edit){ old, new, how & 1, how & 2 ? how >> 2 & 3 : 0 };
        if (has_mark(old) || has_mark(new))
            return 0;
    }
    struct bytes file = { (const char *)in.at, in.left };
    enum plain_outcome outcome = plain_edit(file, edits, count, &plain);
    int status = edit_apply(file, edits, count, LIMIT, &result, NULL);
    holds(outcome != PLAIN_REFUSED || status < 0);
    if (outcome == PLAIN_DONE) {
        holds(status == 0 && result.fuzzy == 0);
        holds(bytes_equal((struct bytes){ plain.data, plain.length },
                          (struct bytes){ result.bytes.data, result.bytes.length }));
    }
    if (status == 0) {
        check_spans(file, &result);
        check_diff(file, &result, count * 50);
    }
    edit_result_clear(&result);
    buffer_free(&plain);
    return 0;
}
