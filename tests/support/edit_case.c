/* Owns how a test tries an edit, and proves that the spans told of it are so. Knows no case. */
#include "tests/support/edit_case.h"

#include <check.h>

enum { LIMIT = 64 << 20 };

int edit_try(struct bytes file, const struct edit *edits, size_t count, struct edit_result *ret,
             struct error *err)
{
    return edit_apply(file, edits, count, LIMIT, ret, err);
}

void edit_check_spans(struct bytes file, const struct edit_result *result)
{
    size_t at = 0, new_at = 0;
    for (size_t i = 0; i <= result->span_count; i++) {
        bool last = i == result->span_count;
        struct edit_span end = { file.length, 0, result->bytes.length, 0 };
        struct edit_span span = last ? end : result->spans[i];
        ck_assert_uint_ge(span.old_at, at);
        ck_assert_uint_ge(span.new_at, new_at);
        ck_assert_uint_eq(span.old_at - at, span.new_at - new_at);
        if (span.old_at > at)
            ck_assert_mem_eq(file.data + at, result->bytes.data + new_at, span.old_at - at);
        at = span.old_at + span.old_length;
        new_at = span.new_at + span.new_length;
        ck_assert_uint_le(at, file.length);
        ck_assert_uint_le(new_at, result->bytes.length);
    }
}
