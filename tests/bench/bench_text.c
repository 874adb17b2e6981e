/* What condensing saves of recorded outputs, by kind, and how fast it is. One half of the recordings is what
 * the rows were tuned on; the figures are of the other half. Fails where a result is longer than the raw
 * bytes, or where a figure is not reached.
 *
 * Tokens are estimated, as tokenizers of byte pairs cut: one for each started 6 letters of a word (a blank
 * before it belongs to it), each started 3 digits, each started 4 equal bytes of another kind, and each other
 * byte that is no blank; of characters beyond ASCII one for each started 2 bytes. */
#include "lib/base/clock.h"
#include "lib/text/condense.h"
#include "tests/support/recordings.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
    KINDS_MAX = 32,
    WANTED_PERCENT = 75,
    WANTED_MB_PER_S = 100,
    WANTED_MIB = 20,
    BIG = 16 << 20,
    ROUNDS = 5,
    MAX_RECORDING = 400000
};

struct row {
    const char *kind;
    size_t outputs, bytes_before, bytes_after, tokens_before, tokens_after;
    double saved[64];
};

static bool is_letter(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

/* A run of what is alike at data, and how many bytes of it make one token. */
static size_t piece(const unsigned char *data, size_t length, size_t *ret_unit)
{
    size_t at = 1;
    if (is_letter(data[0])) {
        for (*ret_unit = 6; at < length && is_letter(data[at]);)
            at++;
    } else if (is_digit(data[0])) {
        for (*ret_unit = 3; at < length && is_digit(data[at]);)
            at++;
    } else if (data[0] >= 0x80) {
        for (*ret_unit = 2; at < length && data[at] >= 0x80;)
            at++;
    } else {
        for (*ret_unit = 4; at < length && data[at] == data[0];)
            at++;
    }
    return at;
}

static size_t estimate_tokens(const char *text, size_t length)
{
    const unsigned char *data = (const unsigned char *)text;
    size_t tokens = 0, size, unit;
    for (size_t at = 0; at < length; at += size) {
        size = piece(data + at, length - at, &unit);
        bool joins = data[at] == ' ' && size == 1 && at + 1 < length && is_letter(data[at + 1]);
        tokens += joins ? 0 : (size + unit - 1) / unit;
    }
    return tokens;
}

static int compare(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count == 0 ? 0 : (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static struct row *row_of(struct row *rows, const char *kind)
{
    size_t at = 0;
    while (at + 1 < KINDS_MAX && rows[at].kind != NULL && strcmp(rows[at].kind, kind) != 0)
        at++;
    rows[at].kind = kind;
    return &rows[at];
}

static double percent(size_t before, size_t after)
{
    return before == 0 ? 0 : 100.0 * (1.0 - (double)after / (double)before);
}

static void add(struct row *row, const struct recording *recording, const struct condensed *c)
{
    const struct buffer *raw = &recording->raw, *shown = c->unchanged ? raw : &c->text;
    size_t before = estimate_tokens(raw->data, raw->length),
           after = estimate_tokens(shown->data, shown->length);
    row->bytes_before += raw->length;
    row->bytes_after += shown->length;
    row->tokens_before += before;
    row->tokens_after += after;
    if (row->outputs < N_ELEMENTS(row->saved))
        row->saved[row->outputs++] = percent(before, after);
}

static void print_row(struct row *row)
{
    printf("| %-9s | %7zu | %9zu | %8zu | %8zu | %7zu | %5.1f %% | %5.1f %% |\n", row->kind, row->outputs,
           row->bytes_before, row->bytes_after, row->tokens_before, row->tokens_after,
           percent(row->tokens_before, row->tokens_after), median(row->saved, row->outputs));
}

/* Of one half; returns the median of the share of bytes that was saved, -1 where one result was too long. */
static double half(const struct recordings *all, bool reported, bool show)
{
    struct row rows[KINDS_MAX] = { 0 };
    double *bytes = xcalloc(all->count + 1, sizeof *bytes), *tokens = xcalloc(all->count + 1, sizeof *tokens),
           result;
    size_t count = 0, longer = 0;
    for (size_t at = 0; at < all->count; at++) {
        const struct recording *one = &all->rows[at];
        _cleanup_condensed_ struct condensed c = { 0 };
        if (one->reported != reported)
            continue;
        condense(one->raw.data, one->raw.length, one->columns, "exec_id ex-0123456789abcdef", &c);
        size_t after = c.unchanged ? one->raw.length : c.text.length,
               shown = c.unchanged ? one->raw.length : c.text.length;
        longer += after > one->raw.length;
        bytes[count] = percent(one->raw.length, after);
        tokens[count++] = percent(estimate_tokens(one->raw.data, one->raw.length),
                                  estimate_tokens(c.unchanged ? one->raw.data : c.text.data, shown));
        add(row_of(rows, one->kind), one, &c);
        if (getenv("EACH") != NULL)
            printf("  %-24s %7zu -> %6zu bytes %5.1f %%\n", one->name, one->raw.length, after,
                   bytes[count - 1]);
    }
    for (size_t at = 0; show && at < KINDS_MAX && rows[at].kind != NULL; at++)
        print_row(&rows[at]);
    result = median(bytes, count);
    printf("%s half, %zu outputs: saved in the median %.1f %% of the bytes, %.1f %% of the tokens; longer "
           "than raw: %zu\n",
           reported ? "reported" : "tuning", count, result, median(tokens, count), longer);
    free(bytes);
    free(tokens);
    return longer > 0 ? -1 : result;
}

static double best_rate(const struct recordings *all, bool terminal)
{
    struct buffer big = BUFFER_INIT;
    struct condensed c;
    for (size_t at = 0; big.length < BIG; at = (at + 1) % all->count)
        if ((all->rows[at].columns > 0) == terminal)
            buffer_append(&big, all->rows[at].raw.data, all->rows[at].raw.length);
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) { /* the best one: others use the machine too */
        int64_t started = clock_boottime_us();
        condense(big.data, big.length, terminal ? 120 : 0, "exec_id ex-0123456789abcdef", &c);
        double rate = (double)big.length / (double)(clock_boottime_us() - started);
        best = rate > best ? rate : best;
        condensed_free(&c);
    }
    buffer_free(&big);
    return best;
}

/* What condensing 64 MiB takes besides them and the result, in a process of its own. */
static double memory(const struct recordings *all)
{
    struct rusage before, after;
    struct buffer big = BUFFER_INIT;
    struct condensed c;
    buffer_reserve(&big, CONDENSE_MAX);
    for (size_t at = 0; big.length + MAX_RECORDING < CONDENSE_MAX; at = (at + 1) % all->count)
        buffer_append(&big, all->rows[at].raw.data, all->rows[at].raw.length);
    getrusage(RUSAGE_SELF, &before);
    condense(big.data, big.length, 120, "exec_id ex-0123456789abcdef", &c);
    getrusage(RUSAGE_SELF, &after);
    return (double)(after.ru_maxrss - before.ru_maxrss) / 1024 - (double)c.text.length / (1 << 20);
}

static double memory_apart(const struct recordings *all)
{
    double taken = -1;
    int ends[2];
    if (pipe(ends) < 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        taken = memory(all);
        _exit(write(ends[1], &taken, sizeof taken) == sizeof taken ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &taken, sizeof taken) != sizeof taken)
        taken = -1;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return taken;
}

int main(void)
{
    struct recordings all;
    recordings_load(&all);
    printf("| kind      | outputs | bytes     | after    | tokens   | after   | saved   | median  |\n"
           "|---|---|---|---|---|---|---|---|\n");
    double reported = half(&all, true, true), tuned = half(&all, false, false);
    double piped = best_rate(&all, false), terminal = best_rate(&all, true);
    printf("throughput: %.0f MB/s of what went through pipes, %.0f MB/s of what went to a terminal\n", piped,
           terminal);
    double taken = memory_apart(&all);
    printf("memory for 64 MiB besides them and the result: %.1f MiB (at most %d)\n", taken, WANTED_MIB);
    recordings_free(&all);
    bool reached = reported >= WANTED_PERCENT && tuned >= 0 && piped >= WANTED_MB_PER_S && taken >= 0 &&
                   taken <= WANTED_MIB;
    printf("%s\n", reached ? "reached" : "NOT REACHED");
    return !reached;
}
