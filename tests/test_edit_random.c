/* Editing bytes: random files and edits against an implementation that is slow and plain. */
#include "lib/base/ids.h"
#include "tests/support/edit_case.h"
#include "tests/support/plain_edit.h"
#include "tests/support/unit.h"

#include <check.h>
#include <stdio.h>

static unsigned dice(unsigned sides)
{
    uint32_t number;
    id_random(&number, sizeof(number));
    return number % sides;
}

/* Pieces that make matches, near matches and torn characters likely. kind: which line ends there are. */
static void add_piece(struct buffer *to, unsigned kind)
{
    static const struct bytes pieces[] = {
        B("a"),        B("b"),
        B("ab"),       B("a b"),
        B("  "),       B(" "),
        B("\t"),       B("\xC3\xA9"),
        B("\xFF"),     B("\xE2\x80"),
        B("\0"),       B("\f"),
        B("{"),        B("}"),
        B("\r"),       B("e\xCC\x81"),
        B("\xC2\xA0"), B("\xE2\x80\xA8"),
        B("x = 1;"),   B("\xF0\x9F\x98\x80"),
    };
    static const struct bytes ends[] = { B("\n"), B("\r\n"), B("\r"), B("\n"), B("\r\n") };
    bool is_end = dice(4) == 0;
    struct bytes piece = is_end ? ends[kind < 3 ? kind : dice(5)] : pieces[dice(N_ELEMENTS(pieces))];
    if (kind == 1 && !is_end && piece.data[0] == '\r')
        return;
    buffer_append(to, piece.data, piece.length);
}

static void random_text(struct buffer *to, unsigned most, unsigned kind)
{
    for (unsigned i = dice(most); i > 0; i--)
        add_piece(to, kind);
}

/* A part of the file, sometimes with other white space or line ends than it has there. */
static void random_old(struct buffer *to, struct bytes file, unsigned kind)
{
    size_t from = file.length > 0 ? dice((unsigned)file.length) : 0;
    size_t length = dice(4) == 0 ? dice(40) : dice(8) + 1;
    unsigned change = dice(4);
    for (size_t i = from; i < file.length && i < from + length; i++) {
        char c = file.data[i];
        if (change == 1 && c == '\r')
            continue;
        if (change == 2 && (c == ' ' || c == '\t') && dice(2) == 0)
            buffer_append_char(to, '\t');
        else if (change == 2 && c == '\n' && dice(2) == 0)
            buffer_append_text(to, " \n ");
        else
            buffer_append_char(to, c);
    }
    if (dice(20) == 0)
        random_text(to, 4, kind);
}

/* What old becomes: anything, or old with one place changed. */
static void random_new(struct buffer *to, const struct buffer *old, unsigned kind)
{
    unsigned how = dice(4);
    size_t at = old->length > 0 ? dice((unsigned)old->length) : 0;
    if (how == 0)
        return;
    if (how == 1)
        buffer_append(to, old->data, at);
    random_text(to, 8, kind);
    if (how <= 2)
        buffer_append(to, old->data + at, old->length - at);
}

/* What is told of marks stands in the table. */
static void drop_marks(struct buffer *text)
{
    if (memmem(buffer_text(text), text->length, "\xEF\xBB\xBF", 3) != NULL)
        text->length = 0;
}

struct round {
    struct buffer file, old[EDITS], new[EDITS];
    struct edit edits[EDITS];
    size_t count;
};

static void round_make(struct round *round)
{
    unsigned kind = dice(5);
    if (dice(6) == 0)
        buffer_append_text(&round->file, "\xEF\xBB\xBF");
    random_text(&round->file, dice(3) == 0 ? 8 : 60, kind);
    round->count = dice(EDITS) + 1;
    for (size_t i = 0; i < round->count; i++) {
        struct bytes file = { round->file.data, round->file.length };
        random_old(&round->old[i], file, kind);
        random_new(&round->new[i], &round->old[i], dice(4) == 0 ? 4 : kind);
        drop_marks(&round->old[i]);
        drop_marks(&round->new[i]);
        round->edits[i] = (struct edit){ { round->old[i].data, round->old[i].length },
                                         { round->new[i].data, round->new[i].length },
                                         dice(6) == 0,
                                         dice(5) == 0 ? dice(3) : 0 };
    }
}

static void round_free(struct round *round)
{
    buffer_free(&round->file);
    for (size_t i = 0; i < EDITS; i++) {
        buffer_free(&round->old[i]);
        buffer_free(&round->new[i]);
    }
}

static void show(const char *name, struct bytes text)
{
    printf("%s: \"", name);
    for (size_t i = 0; i < text.length; i++)
        printf(text.data[i] >= ' ' && text.data[i] < 127 ? "%c" : "\\x%02x", (unsigned char)text.data[i]);
    printf("\"\n");
}

static void show_round(const struct round *round, const struct buffer *plain, const struct buffer *made)
{
    show("file", (struct bytes){ round->file.data, round->file.length });
    for (size_t i = 0; i < round->count; i++) {
        show(" old", round->edits[i].old);
        show(" new", round->edits[i].new);
        printf(" all %d, occurrence %zu\n", round->edits[i].replace_all, round->edits[i].occurrence);
    }
    show("plain", (struct bytes){ plain->data, plain->length });
    show(" made", (struct bytes){ made->data, made->length });
    fflush(stdout);
}

/* Lines that were put by a fuzzy edit are new's but for white space at their start. */
static bool fuzzy_lines_are_new(const struct edit *edit, const struct edit_result *result)
{
    if (edit->replace_all || edit->new.length == 0 || result->span_count != 1)
        return true;
    struct bytes made = { result->bytes.data, result->bytes.length };
    _cleanup_buffer_ struct buffer put = BUFFER_INIT, wanted = BUFFER_INIT;
    plain_strip(bytes_cut(made, result->spans[0].new_at, result->spans[0].new_length), true, &put);
    plain_strip(edit->new, true, &wanted);
    return put.length == 0 || memmem(wanted.data, wanted.length, put.data, put.length) != NULL;
}

static enum plain_outcome check_round(const struct round *round)
{
    struct bytes file = { round->file.data, round->file.length };
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer plain = BUFFER_INIT;
    _cleanup_edit_result_ struct edit_result result = EDIT_RESULT_INIT;
    enum plain_outcome outcome = plain_edit(file, round->edits, round->count, &plain);
    int status = edit_try(file, round->edits, round->count, &result, &err);
    bool agrees = outcome == PLAIN_FUZZY ? status < 0 || result.fuzzy > 0
                  : outcome == PLAIN_REFUSED
                      ? status < 0
                      : status == 0 && result.fuzzy == 0 &&
                            bytes_equal((struct bytes){ plain.data, plain.length },
                                        (struct bytes){ result.bytes.data, result.bytes.length });
    if (!agrees) {
        show_round(round, &plain, &result.bytes);
        ck_abort_msg("outcome %d, status %d %s, %zu fuzzy", outcome, status, err.message, result.fuzzy);
    }
    if (status == 0)
        edit_check_spans(file, &result);
    if (outcome == PLAIN_FUZZY && round->count == 1) {
        ck_assert_msg(status == 0 || round->edits[0].occurrence > 1, "%s", err.message);
        if (status == 0 && !fuzzy_lines_are_new(&round->edits[0], &result)) {
            show_round(round, &plain, &result.bytes);
            ck_abort_msg("other lines");
        }
    }
    return outcome;
}

START_TEST(random_edits_are_as_plain_ones)
{
    size_t seen[3] = { 0 };
    for (int i = 0; i < 15000; i++) {
        struct round round = { .count = 0 };
        round_make(&round);
        seen[check_round(&round)]++;
        round_free(&round);
    }
    /* All kinds are common enough to have said something. */
    ck_assert_msg(seen[0] > 2500 && seen[1] > 1500 && seen[2] > 150, "%zu done, %zu refused, %zu fuzzy",
                  seen[0], seen[1], seen[2]);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { random_edits_are_as_plain_ones };
    return unit_run_tests("edit_random", tests, N_ELEMENTS(tests), NULL, NULL, 120);
}
