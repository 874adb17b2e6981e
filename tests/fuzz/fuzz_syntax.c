/* Judging any bytes under any name, and any answer of a program: the verdict is always one that can be told.
 */
#include "lib/agent/syntax/syntax.h"
#include "lib/base/utf8.h"
#include "tests/fuzz/input.h"

enum { SIZE_MOST = 20000 };

static void check(const struct syntax_verdict *verdict)
{
    size_t length = strnlen(verdict->message, sizeof(verdict->message));
    holds(length < sizeof(verdict->message) && utf8_is_valid(verdict->message, length));
    holds(verdict->outcome == SYNTAX_INVALID || verdict->line + verdict->column == 0);
    holds((length > 0) == (verdict->outcome == SYNTAX_INVALID || verdict->outcome == SYNTAX_SKIPPED));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = { "a.json", "a.jsonc", "a.jsonl",         "a.yaml",
                                         "a.py",   "a.toml",  "a/tsconfig.json", "a" };
    struct input in = { data, size };
    struct syntax_verdict verdict, after;
    const char *path = paths[input_u8(&in) % 8];
    if (size < 2 || size > SIZE_MOST)
        return 0;
    struct bytes content = { (const char *)in.at, in.left };
    syntax_check(path, content, &verdict);
    holds((verdict.outcome == SYNTAX_ASK) == (syntax_program(path) != NULL) ||
          verdict.outcome == SYNTAX_SKIPPED);
    if (verdict.outcome == SYNTAX_ASK)
        syntax_answer(path, content, content, &verdict);
    check(&verdict);
    after = verdict;
    syntax_weigh(&verdict, &after);
    holds(after.outcome != SYNTAX_INVALID);
    check(&after);
    return 0;
}
