/* What a terminal shows of an operation: every kind of row, and examples that work. */
#include "lib/op/manual.h"

#include "lib/schema/formats.h"
#include "tests/support/unit.h"

#include <check.h>

#define ID "00000000000000000000000000000000"

static const char *const sizes[] = { "small", "middle", "large", NULL };
static const struct field row_item = { NULL, FIELD_STRING, FIELD_RANGE(1, 20), .format = &format_package };
static const struct field row_list = { NULL, FIELD_ARRAY, FIELD_RANGE(0, 3), .items = &row_item };
static const struct field part_rows[] = {
    { "old", FIELD_STRING, .required = true, .text = "What goes." },
    { "count", FIELD_INTEGER, FIELD_RANGE(1, 9), .dflt = "1", .text = "How often." },
    FIELD_END,
};
static const struct field row_part = { NULL, FIELD_OBJECT, .members = part_rows };

static const struct {
    struct field row;
    const char *said;
} kinds[] = {
    { { "a", FIELD_STRING, .required = true, FIELD_RANGE(1, 20), .format = &format_no_nul,
        .text = "That one." },
      "  a  string of 1 to 20 characters, required\n      That one.\n" },
    { { "a", FIELD_STRING, .choices = sizes, .dflt = "\"small\"" },
      "  a  string: \"small\", \"middle\" or \"large\", default \"small\"\n" },
    { { "a", FIELD_STRING, .nullable = true, .format = &format_workspace_id },
      "  a  string or null, default null; must be ws- and 32 lowercase hex digits\n" },
    { { "a", FIELD_INTEGER, .nullable = true, .unset = true, FIELD_RANGE(-5, 9007199254740991.0) },
      "  a  integer from -5 to 9007199254740991 or null\n" },
    { { "a", FIELD_NUMBER, FIELD_RANGE(0.125, 60), .clamp = true, .dflt = "25" },
      "  a  number from 0.125 to 60 (more is taken as that), default 25\n" },
    { { "a", FIELD_BOOLEAN, .dflt = "false" }, "  a  boolean, default false\n" },
    { { "a", FIELD_STRING, FIELD_RANGE(1, 9), .also = &row_list },
      "  a  string of 1 to 9 characters or array of 0 to 3 items (each: string of 1 to 20 characters;\n"
      "      must begin with a letter or digit, then up to 199 of letters, digits and +._:@/=-)\n" },
    { { "a", FIELD_OBJECT, .nullable = true, FIELD_RANGE(0, 5), .items = &row_part, .keys = &format_tag_key,
        .required = true },
      "  a  object of 0 to 5 members or null, required; a name must have 1 to 100 characters\n"
      "      old  string, required\n          What goes.\n"
      "      count  integer from 1 to 9, default 1\n          How often.\n" },
    { { "a", FIELD_BOOLEAN, .http_only = true, .text = "Of HTTP." }, "" },
    { { "a", FIELD_STRING, .text = "See {{startRealtimeWorkspaceExec}}.[[{{tools}} Or not.]]" },
      "  a  string\n      See startRealtimeWorkspaceExec. Or not.\n" },
};

START_TEST(test_kinds)
{
    const struct field rows[] = { kinds[_i].row, FIELD_END };
    const struct op op = { .summary = "Do it.", .path = "/x", .params = rows, .example = "\"a\": 1" };
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    _cleanup_free_ char *said = xasprintf(
        "Do it.\n\nParameters, as members of one JSON object:\n%s\nExample:\n  try it '{\"a\": 1}'\n",
        kinds[_i].said);

    manual_append(&out, &op, "try it");
    ck_assert_str_eq(buffer_text(&out), said);
}
END_TEST

/* With the ids of something that there might be. */
static json_t *filled_in(const char *example)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;

    for (const char *at = example; *at;) {
        const char *gap = strstr(at, "-...\"");
        size_t length = gap ? (size_t)(gap - at) + 1 : strlen(at);
        buffer_append(&text, at, length);
        if (gap)
            buffer_append_text(&text, ID);
        at += length + (gap ? strlen("...") : 0);
    }
    return json_loads(buffer_text(&text), 0, NULL);
}

START_TEST(test_examples)
{
    const char *const settings[] = { "WORKSPACE_STATE_DIR=/nowhere", NULL };
    struct config *config = config_load(NULL, settings, NULL);

    for (const struct op *const *at = ops; *at; at++) {
        const struct op *op = *at;
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_free_ char *example = manual_example(op);
        json_auto_t *in = filled_in(example), *checked = NULL;
        if (op->flags & OP_RAW)
            continue;
        ck_assert_msg(in != NULL, "%s: %s is no JSON", op->id, example);
        ck_assert_msg(field_check(op->params, "body", NULL, in, &checked, &err) == 0 &&
                          (!op->check || op->check(config, checked, &err) == 0),
                      "%s: %s: %s", op->id, example, err.message);
        ck_assert_msg(!strchr(example, '\''), "%s: a shell ends it early: %s", op->id, example);
    }
    config_free(config);
}
END_TEST

START_TEST(test_bytes_name_their_way)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;

    manual_append(&out, op_find("uploadWorkspaceFile"), "workspace-fcgi call uploadWorkspaceFile");
    ck_assert_ptr_nonnull(strstr(buffer_text(&out), "over HTTP alone"));
    ck_assert_ptr_null(strstr(buffer_text(&out), "workspace-fcgi call"));
}
END_TEST

static const struct {
    const char *text, *lines;
    size_t width;
} wrapped[] = {
    { "", "", 10 },
    { "   ", "", 10 },
    { "one", "* one\n", 10 },
    { "one two six", "* one two\n   six\n", 9 },
    { "one two six", "* one\n   two\n   six\n", 8 },
    { " a word-longer-than-that b ", "* a\n   word-longer-than-that\n   b\n", 8 },
};

START_TEST(test_wrapped)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;

    buffer_append_wrapped(&out, "* ", "   ", wrapped[_i].text, wrapped[_i].width);
    ck_assert_str_eq(buffer_text(&out), wrapped[_i].lines);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("manual");
    TCase *c = tcase_create("manual");

    tcase_add_loop_test(c, test_kinds, 0, (int)N_ELEMENTS(kinds));
    tcase_add_test(c, test_examples);
    tcase_add_test(c, test_bytes_name_their_way);
    tcase_add_loop_test(c, test_wrapped, 0, (int)N_ELEMENTS(wrapped));
    suite_add_tcase(suite, c);
    return unit_run(suite);
}
