/* The scan of JSON text against jansson: what both take is within the bounds that the scan promises, what
 * jansson takes within the bounds is never refused, and what comes out can be written and read again. The
 * first byte chooses how often the text stands in an array, so that the bounds are met by small inputs. The
 * way of long strings past jansson is taken by short ones too, and is to make no difference. */
#include "lib/base/json_text.h"
#include "lib/base/utf8.h"
#include "lib/schema/field.h"
#include "tests/fuzz/input.h"

struct shape {
    long values, depth;
};

static void measure(const json_t *value, long depth, struct shape *shape)
{
    const char *name;
    const json_t *member;
    size_t index;
    bool nests = json_is_object(value) || json_is_array(value);
    shape->values++;
    if (nests && depth + 1 > shape->depth)
        shape->depth = depth + 1;
    json_object_foreach((json_t *)value, name, member)
        measure(member, depth + 1, shape);
    json_array_foreach(value, index, member)
        measure(member, depth + 1, shape);
}

static void check_taken(json_t *value)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    holds(json_text_append(&text, value));
    json_auto_t *again = field_parse_json(text.data, text.length, &err);
    holds(again != NULL && json_equal(value, again));
}

static void check_past(const char *text, size_t length, size_t flags, const json_t *theirs)
{
    json_auto_t *ours = json_text_read_long(text, length, flags, length > 0 ? (size_t)text[0] % 4 : 0, NULL);
    holds((ours != NULL) == (theirs != NULL) && (ours == NULL || json_equal(ours, theirs)));
}

static void check(const char *text, size_t length)
{
    _cleanup_error_ struct error err = ERROR_INIT, scan_err = ERROR_INIT;
    json_auto_t *ours = field_parse_json(text, length, &err);
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_auto_t *theirs = json_loadb(text, length, flags, NULL);
    json_auto_t *laxer = json_loadb(text, length, 0, NULL);
    bool scanned = field_scan_json(text, length, &scan_err) == 0;
    struct shape shape = { 0 };
    holds(ours != NULL || (err.code != ERROR_NONE && utf8_is_valid(err.message, strlen(err.message))));
    holds(scanned || ours == NULL);
    check_past(text, length, flags, theirs);
    check_past(text, length, 0, laxer);
    if (theirs != NULL) {
        measure(theirs, 0, &shape);
        holds(!scanned || (shape.values <= 50000 && shape.depth <= 64));
        holds(scanned || shape.values >= 50000 || shape.depth > 64);
        holds((ours != NULL) == scanned && (ours == NULL || json_equal(ours, theirs)));
    }
    if (ours != NULL)
        check_taken(ours);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    if (size == 0 || size > 20000)
        return 0;
    size_t repeats = (data[0] & 0x80) && size < 16 ? (size_t)(data[0] & 0x7F) * 500 : 1;
    buffer_append_text(&text, repeats > 1 ? "[" : "");
    for (size_t i = 0; i < repeats; i++) {
        buffer_append_text(&text, i > 0 ? "," : "");
        buffer_append(&text, data + 1, size - 1);
    }
    buffer_append_text(&text, repeats > 1 ? "]" : "");
    void *exact = xmemdup(text.data, text.length);
    check(exact, text.length);
    free(exact);
    return 0;
}
