/* The syntax gate: what each judge says; Python and TOML by the real python3. */
#include "lib/agent/syntax/syntax.h"
#include "lib/base/buffer.h"
#include "lib/base/utf8.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define B(text)                                                                                              \
    {                                                                                                        \
        (text), sizeof(text) - 1                                                                             \
    }
#define VALID        SYNTAX_VALID, 0, 0, ""
#define SKIPPED(why) SYNTAX_SKIPPED, 0, 0, why

struct sample {
    const char *path;
    struct bytes content;
    enum syntax_outcome outcome;
    size_t line, column;
    const char *message; /* a part of it */
};

static void check(const struct sample *sample, const struct syntax_verdict *verdict)
{
    ck_assert_msg(verdict->outcome == sample->outcome, "%s '%s': outcome %d, %s", sample->path,
                  sample->content.data, verdict->outcome, verdict->message);
    ck_assert_msg(strstr(verdict->message, sample->message) != NULL, "%s '%s': %s", sample->path,
                  sample->content.data, verdict->message);
    ck_assert_msg(verdict->line == sample->line && verdict->column == sample->column, "%s '%s': %zu:%zu",
                  sample->path, sample->content.data, verdict->line, verdict->column);
}

/* ---- judged here ---- */

static const struct sample samples[] = {
    { "a.txt", B("{"), SKIPPED("nothing here knows") },
    { "Makefile", B("{"), SKIPPED("nothing here knows") },
    { "dir.json/file", B("{"), SKIPPED("nothing here knows") },
    { "a.json.j2", B("{"), SKIPPED("nothing here knows") },
    { "a.json", B("{\"a\": [1, 2.5, null, true, \"\\u00e9\"]}"), VALID },
    { "a.JSON", B("[]\n"), VALID },
    { "a.json", B("5"), VALID },
    { "a.json", B("{\"a\": 1, \"a\": 2}"), VALID },
    { "a.json", B("\"\\u0000\""), VALID },
    { "a.json", B("123456789012345678901234567890"), VALID },
    { "a.json", B("\xEF\xBB\xBF{}"), VALID },
    { "a.json", B("\xFF\xFE{\0}\0"), SKIPPED("UTF-16") },
    { "a.json", B(""), SYNTAX_INVALID, 1, 1, "JSON parse error at line 1: " },
    { "a.json", B("{\n  \"a\": 1,\n  \"b\" 2\n}\n"), SYNTAX_INVALID, 3, 7,
      "JSON parse error at line 3: ':' expected" },
    { "a.json", B("[1, 2,]"), SYNTAX_INVALID, 1, 7, "JSON parse error at line 1" },
    { "a.json", B("[NaN]"), SYNTAX_INVALID, 1, 2, "invalid token near 'NaN' (column 2)" },
    { "a.json", B("[\"\xC3\xA9\"\n , \"\xC3\xA9\" \"\xC3\xA9\"]"), SYNTAX_INVALID, 2, 8, "expected" },
    { "a.json", B("[1] [2]"), SYNTAX_INVALID, 1, 5, "end of file expected" },
    { "a.json", B("[\"\xC3\xA9\", x]"), SYNTAX_INVALID, 1, 7, "(column 7)" },
    { "a.json", B("[\"\xFF\"]"), SYNTAX_INVALID, 1, 2, "unable to decode byte 0xff" },
    { "a.json", B("[01]"), SYNTAX_INVALID, 1, 2, "JSON parse error" },
    { "a.json", B("[1e999]"), SKIPPED("too large") },
    { "a.json", B("{\"\\u0000\": 1}"), SKIPPED("a name in it has a NUL") },
    { "a.json", B("[\"\\ud800\"]"), SKIPPED("escapes of no character") },
    { "a.json", B("{\n // why\n \"a\": \"// no\", /* x\n */ \"b\": 2,\n}\n"), SKIPPED("has comments") },
    { "a.json", B("{\n // why\n \"a\" 1\n}\n"), SYNTAX_INVALID, 3, 6, "':' expected" },
    { "a.json", B("{\"a\": \"/* no\" 1}"), SYNTAX_INVALID, 1, 15, "expected" },
    { "a.jsonc", B("// x\n[1, 2, ]\n"), VALID },
    { "a.jsonc", B("// x\n[1, , 2]\n"), SYNTAX_INVALID, 2, 5, "JSON parse error at line 2" },
    { "a.jsonc", B("[\"a,\", /* ] */ \"]\" ,\n ]"), VALID },
    { "web/tsconfig.base.json", B("{\"a\": 1,}"), VALID },
    { ".vscode/settings.json", B("{\"a\": 1,}"), VALID },
    { "a.json", B("{\"a\": {{ .Values.a }}}"), SKIPPED("looks like a template: JSON parse error at line 1") },
    { "a.json", B("{% for a in b %}{},{% endfor %}"), SKIPPED("template") },
    { "a.json", B("{{ a\n}}"), SYNTAX_INVALID, 1, 2, "JSON parse error" },
    { "a.json", B("/* never closed\n{}"), SYNTAX_INVALID, 2, 2, "JSON parse error" },
    { "a.json", B("{{\"a\": 1}}"), SYNTAX_INVALID, 1, 2, "JSON parse error" },
    { "a.json", B("{\"a\": \"{{ b }}\"}"), VALID },
    { "a.jsonl", B("{\"a\": 1}\n\n[2]\n3\n"), VALID },
    { "a.jsonl", B("{\"a\": 1}\n\n{\"b\" 2}\n"), SYNTAX_INVALID, 3, 6,
      "JSONL parse error at line 3: ':' expected" },
    { "a.jsonl", B("{}\r\n{}\r\n{\r\n}\r\n"), SYNTAX_INVALID, 3, 2, "JSONL parse error at line 3" },
    { "a.ndjson", B("{} {}\n"), SYNTAX_INVALID, 1, 4, "JSONL parse error at line 1" },
    { "a.jsonl", B(""), VALID },
    { "a.yaml", B("a: 1\nb: [x, {y: z}]\n"), VALID },
    { "a.yml", B(""), VALID },
    { "a.yaml", B("---\na: 1\n---\nb: 2\n...\n---\n- c\n"), VALID },
    { "a.yaml", B("a: !Ref b\nc: !Sub\n  - x\nd: !!python/object:x {}\n"), VALID },
    { "a.yaml", B("%YAML 1.1\n%TAG ! tag:x,2000:\n---\n!y z\n"), VALID },
    { "a.yaml",
      B("\xEF\xBB\xBF"
        "a: 1\r\nb: 2\r\n"),
      VALID },
    { "a.yaml", B("a: [1, 2\nb: 3\n"), SYNTAX_INVALID, 2, 2, "YAML parse error: " },
    { "a.yaml", B("a:\n\t- b\n"), SYNTAX_INVALID, 2, 1, "cannot start any token at line 2, column 1" },
    { "a.yaml", B("a: b: c\n"), SYNTAX_INVALID, 1, 5, "mapping values are not allowed" },
    { "a.yaml", B("ok: 1\nbad: \x01\n"), SYNTAX_INVALID, 2, 6, "control characters" },
    { "a.yaml", B("a: 1\nb: \xFF\n"), SYNTAX_INVALID, 2, 4, "UTF-8" },
    { "a.yaml", B("a: {{ .Values.x }}\n{{- if .y }}\nb: 1\n{{- end }}\n"), SKIPPED("template") },
    { "a.yaml", B("a: \"{{ x }}\"\n"), VALID },
};

START_TEST(judged_here)
{
    struct syntax_verdict verdict;
    syntax_check(samples[_i].path, samples[_i].content, &verdict);
    check(&samples[_i], &verdict);
    ck_assert_ptr_null(syntax_program(samples[_i].path));
}
END_TEST

/* ---- judged by python3 ---- */

extern char **environ;

static void feed(const char *const *argv, struct bytes content, struct buffer *ret)
{
    char in_path[80], out_path[80];
    snprintf(in_path, sizeof(in_path), "%s/in", scratch);
    snprintf(out_path, sizeof(out_path), "%s/out", scratch);
    FILE *in = fopen(in_path, "w");
    ck_assert_ptr_nonnull(in);
    ck_assert_uint_eq(fwrite(content.data, 1, content.length, in), content.length);
    fclose(in);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, in_path, O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addchdir_np(&actions, scratch);
    pid_t pid;
    int status;
    ck_assert_int_eq(posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    posix_spawn_file_actions_destroy(&actions);
    FILE *out = fopen(out_path, "r");
    ret->length = fread(buffer_reserve(ret, SYNTAX_ANSWER_MOST), 1, SYNTAX_ANSWER_MOST, out);
    fclose(out);
}

static void judge_by_program(const char *path, struct bytes content, struct syntax_verdict *ret)
{
    _cleanup_buffer_ struct buffer answer = BUFFER_INIT;
    syntax_check(path, content, ret);
    if (ret->outcome != SYNTAX_ASK)
        return;
    const char *const *argv = syntax_program(path);
    ck_assert_ptr_nonnull(argv);
    feed(argv, content, &answer);
    syntax_answer(path, content, (struct bytes){ answer.data, answer.length }, ret);
}

static const struct sample asked[] = {
    { "a.py", B("import os\n\ndef f(x):\n    return x\n"), VALID },
    { "a.py", B(""), VALID },
    { "a.py", B("\xEF\xBB\xBFx = 1\r\n"), VALID },
    { "a.py", B("# -*- coding: latin-1 -*-\nx = '\xE9'\n"), VALID },
    { "a.py", B("open('ran', 'w')\nraise SystemExit(3)\n"), VALID },
    { "a.py", B("x = 1\ndef f(:\n    pass\n"), SYNTAX_INVALID, 2, 7,
      "Python syntax error at line 2: invalid syntax" },
    { "a.py", B("def f():\nreturn 1\n"), SYNTAX_INVALID, 2, 1,
      "Python syntax error at line 2: expected an indented block" },
    { "a.py", B("return 1\n"), SYNTAX_INVALID, 1, 1, "'return' outside function" },
    { "a.py", B("x = '\xC3\xA9' y z\n"), SYNTAX_INVALID, 1, 9, "invalid syntax" },
    { "a.pyi", B("x: int = \n"), SYNTAX_INVALID, 1, 10, "invalid syntax" },
    { "a.py", B("x = 1\ny = '\0'\n"), SYNTAX_INVALID, 2, 0, "null bytes" },
    { "a.py", B("#!/usr/bin/python2\nprint 'x'\n"), SKIPPED("Python 2") },
    { "a.py", B("print 'x'\n"), SYNTAX_INVALID, 1, 1, "Missing parentheses" },
    { "a.py", B("import {{ cookiecutter.name }}\n"), SKIPPED("template") },
    { "a.py", B("{% if x %}\nimport y\n{% endif %}\n"), SKIPPED("template") },
    { "a.py", B("x = f'{{a}}'\ny = (\n"), SYNTAX_INVALID, 2, 5, "was never closed" },
    { "a.toml", B("a = 1\n[b]\nc = [1, 2]\nd = 1979-05-27\n"), VALID },
    { "a.toml", B(""), VALID },
    { "a.toml",
      B("\xEF\xBB\xBF"
        "a = 1\r\n"),
      VALID },
    { "a.toml", B("a = 1\nb c\n"), SYNTAX_INVALID, 2, 3, "TOML parse error: Expected '=' after a key" },
    { "a.toml", B("a = 1\na = 2\n"), SYNTAX_INVALID, 2, 6,
      "TOML parse error: Cannot overwrite a value at line 2" },
    { "a.toml", B("a = 1\nb = \"\xC3\xA9"), SYNTAX_INVALID, 2, 7, "TOML parse error: " },
    { "a.toml", B("a = 1\nb = \"\xFF\"\n"), SYNTAX_INVALID, 2, 0, "not UTF-8" },
    { "a.toml", B("a = {{ b }}\n"), SKIPPED("template") },
    { "a.toml", B("a = 2020-02-30\n"), SYNTAX_INVALID, 1, 5, "Invalid date" },
};

START_TEST(judged_by_python)
{
    struct syntax_verdict verdict;
    judge_by_program(asked[_i].path, asked[_i].content, &verdict);
    check(&asked[_i], &verdict);
    char ran[80];
    struct stat st;
    snprintf(ran, sizeof(ran), "%s/ran", scratch);
    ck_assert_int_lt(stat(ran, &st), 0); /* nothing of the content was run */
}
END_TEST

/* More digits than python3 takes: the grammar has them. */
START_TEST(a_long_number_is_told_as_such)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    struct syntax_verdict verdict;
    buffer_append_text(&content, "a = ");
    for (int i = 0; i < 5000; i++)
        buffer_append_char(&content, '7');
    judge_by_program("a.toml", (struct bytes){ content.data, content.length }, &verdict);
    ck_assert_int_eq(verdict.outcome, SYNTAX_SKIPPED);
    ck_assert_msg(strstr(verdict.message, "tomllib cannot read it: ") != NULL, "%s", verdict.message);
}
END_TEST

/* Modules of the workspace are not imported. */
START_TEST(python_is_on_its_own)
{
    static const char *const names[] = { "tomllib.py", "re.py", "sitecustomize.py", "usercustomize.py",
                                         "encodings.py" };
    struct syntax_verdict verdict;
    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        _cleanup_free_ char *path = xasprintf("%s/%s", scratch, names[i]);
        FILE *file = fopen(path, "w");
        ck_assert_ptr_nonnull(file);
        fputs("open('ran', 'w')\n", file);
        fclose(file);
    }
    setenv("PYTHONPATH", scratch, 1);
    judge_by_program("a.toml", (struct bytes)B("a = 1\n"), &verdict);
    ck_assert_int_eq(verdict.outcome, SYNTAX_VALID);
    judge_by_program("a.py", (struct bytes)B("a = 1\n"), &verdict);
    ck_assert_int_eq(verdict.outcome, SYNTAX_VALID);
    _cleanup_free_ char *ran = xasprintf("%s/ran", scratch);
    ck_assert_int_lt(access(ran, F_OK), 0);
}
END_TEST

/* What answers in the sandbox may be anything. */
START_TEST(answers_are_hostile)
{
    static const struct {
        struct bytes answer;
        enum syntax_outcome outcome;
    } rows[] = {
        { B(""), SYNTAX_SKIPPED },
        { B("ok"), SYNTAX_VALID },
        { B("okay"), SYNTAX_SKIPPED },
        { B("ok\0no"), SYNTAX_VALID },
        { B("bad"), SYNTAX_SKIPPED },
        { B("bad x y z"), SYNTAX_SKIPPED },
        { B("bad 1"), SYNTAX_SKIPPED },
        { B("bad 1 2 %s%n\xFF\xC3"), SYNTAX_INVALID },
        { B("bad 99999999999999999999 1 x"), SYNTAX_SKIPPED },
        { B("skip \xE2\x80"), SYNTAX_SKIPPED },
    };
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        struct syntax_verdict verdict;
        syntax_answer("a.py", (struct bytes)B("x"), rows[i].answer, &verdict);
        ck_assert_msg(verdict.outcome == rows[i].outcome, "row %zu: %d %s", i, verdict.outcome,
                      verdict.message);
        ck_assert(utf8_is_valid(verdict.message, strlen(verdict.message)));
    }
    struct syntax_verdict verdict;
    char large[20000];
    memset(large, '\xC3', sizeof(large));
    memcpy(large, "bad 7 8 ", 8);
    syntax_answer("a.py", (struct bytes)B("x"), (struct bytes){ large, sizeof(large) }, &verdict);
    ck_assert_int_eq(verdict.outcome, SYNTAX_INVALID);
    ck_assert_uint_eq(verdict.line, 7);
    ck_assert_uint_eq(verdict.column, 8);
    ck_assert(utf8_is_valid(verdict.message, strlen(verdict.message)));
    syntax_answer("a.txt", (struct bytes)B("x"), (struct bytes)B("ok"), &verdict);
    ck_assert_int_eq(verdict.outcome, SYNTAX_SKIPPED);
}
END_TEST

START_TEST(nothing_may_be_null)
{
    static const char *const paths[] = { "a.json", "a.jsonc", "a.jsonl", "a.yaml", "a.py", "a.toml", "a" };
    for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
        struct syntax_verdict verdict, empty;
        syntax_check(paths[i], (struct bytes){ NULL, 0 }, &verdict);
        syntax_check(paths[i], (struct bytes){ "", 0 }, &empty);
        ck_assert_int_eq(verdict.outcome, empty.outcome);
    }
}
END_TEST

START_TEST(what_was_broken_may_stay_so)
{
    struct syntax_verdict before, after, fine;
    syntax_check("a.json", (struct bytes)B("{"), &before);
    syntax_check("a.json", (struct bytes)B("{\n\n"), &after);
    syntax_check("a.json", (struct bytes)B("{}"), &fine);
    syntax_weigh(&fine, &after);
    ck_assert_int_eq(after.outcome, SYNTAX_INVALID);
    syntax_weigh(&before, &after);
    ck_assert_int_eq(after.outcome, SYNTAX_SKIPPED);
    ck_assert_ptr_nonnull(
        strstr(after.message, "could not be read before either: JSON parse error at line "));
    syntax_weigh(&before, &fine);
    ck_assert_int_eq(fine.outcome, SYNTAX_VALID);
}
END_TEST

/* ---- size ---- */

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static const struct {
    const char *path, *piece;
    size_t size;
} large[] = {
    { "a.json", "[", 5000000 },      { "a.json", "[[],", 5000000 },   { "a.json", "/*", 5000000 },
    { "a.json", "\"", 5000000 },     { "a.jsonl", "1\n", 5000000 },   { "a.yaml", "- a\n", 5000000 },
    { "a.yaml", "a: b\n", 5000000 }, { "a.yaml", "[", 5000000 },      { "a.yaml", "{a: ", 5000000 },
    { "a.yaml", "- ", 5000000 },     { "a.yaml", "{{", 5000000 },     { "a.json", "/* ", 5000000 },
    { "a.json", "{{a ", 5000000 },   { "a.json", "{%a }}", 5000000 }, { "a.yaml", "]\n", 5000000 },
    { "a.jsonc", ",", 5000000 },
};

START_TEST(large_contents_end)
{
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    struct syntax_verdict verdict;
    while (content.length < large[_i].size)
        buffer_append_text(&content, large[_i].piece);
    double begun = cpu_seconds();
    syntax_check(large[_i].path, (struct bytes){ content.data, content.length }, &verdict);
    double took = cpu_seconds() - begun;
    printf("%s %zu x '%s': %.0f ms, %d %s\n", large[_i].path, content.length, large[_i].piece, took * 1000,
           verdict.outcome, verdict.message);
    fflush(stdout);
    ck_assert_msg(took < 10, "%.3f s", took);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("syntax");
    TCase *cases = tcase_create("syntax"), *sizes = tcase_create("sizes");
    tcase_add_checked_fixture(cases, scratch_make, scratch_remove);
    tcase_add_loop_test(cases, judged_here, 0, (int)N_ELEMENTS(samples));
    tcase_add_loop_test(cases, judged_by_python, 0, (int)N_ELEMENTS(asked));
    tcase_add_test(cases, a_long_number_is_told_as_such);
    tcase_add_test(cases, python_is_on_its_own);
    tcase_add_test(cases, answers_are_hostile);
    tcase_add_test(cases, nothing_may_be_null);
    tcase_add_test(cases, what_was_broken_may_stay_so);
    suite_add_tcase(suite, cases);
    tcase_set_tags(sizes, "timing");
    tcase_set_timeout(sizes, 60);
    tcase_add_loop_test(sizes, large_contents_end, 0, (int)N_ELEMENTS(large));
    suite_add_tcase(suite, sizes);
    return unit_run(suite);
}
