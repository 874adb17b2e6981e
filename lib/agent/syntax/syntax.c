/* Owns: which judge a name calls, and what a judge's verdict is worth.
 * It must not know: grammars; how a program is run. */
#include "lib/agent/syntax/internal.h"

#include "lib/agent/edit/lines.h"
#include "lib/base/buffer.h"
#include "lib/base/utf8.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

/* ---- verdicts ---- */

/* Any bytes: the message is UTF-8 and not cut inside a character. */
static void write_message(struct syntax_verdict *ret, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
static void write_message(struct syntax_verdict *ret, const char *format, va_list args)
{
    char raw[sizeof(ret->message)];
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    int wanted = vsnprintf(raw, sizeof(raw), format, args);
    if (wanted < 0)
        raw[0] = '\0';
    buffer_append_utf8(&text, raw, strlen(raw));
    size_t length = text.length < sizeof(ret->message) ? text.length : sizeof(ret->message) - 1;
    if (length > 0)
        memcpy(ret->message, text.data, length);
    ret->message[length - utf8_incomplete_tail(ret->message, length)] = '\0';
}

void verdict_valid(struct syntax_verdict *ret)
{
    *ret = (struct syntax_verdict){ .outcome = SYNTAX_VALID };
}

void verdict_skipped(struct syntax_verdict *ret, const char *format, ...)
{
    va_list args;
    *ret = (struct syntax_verdict){ .outcome = SYNTAX_SKIPPED };
    va_start(args, format);
    write_message(ret, format, args);
    va_end(args);
}

void verdict_invalid(struct syntax_verdict *ret, size_t line, size_t column, const char *format, ...)
{
    va_list args;
    *ret = (struct syntax_verdict){ .outcome = SYNTAX_INVALID, .line = line, .column = column };
    va_start(args, format);
    write_message(ret, format, args);
    va_end(args);
}

void syntax_weigh(const struct syntax_verdict *before, struct syntax_verdict *after)
{
    if (before->outcome != SYNTAX_INVALID || after->outcome != SYNTAX_INVALID)
        return;
    struct syntax_verdict now = *after;
    verdict_skipped(after, "it could not be read before either: %s", now.message);
}

/* ---- judges by name ---- */

struct judge {
    const char *extension;
    void (*check)(struct bytes content, struct syntax_verdict *ret); /* NULL: a program does */
    bool braces_are_common;
};
static const struct judge judges[] = {
    { "json", json_check, false },   { "jsonc", jsonc_check, false },
    { "jsonl", jsonl_check, false }, { "ndjson", jsonl_check, false },
    { "yaml", yaml_check, false },   { "yml", yaml_check, false },
    { "toml", NULL, false },         { "py", NULL, true },
    { "pyi", NULL, true },
};
static const struct judge with_comments = { "json", jsonc_check, false };

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Files called .json that are read as JSON with comments by all that read them. */
static bool is_known_to_have_comments(const char *path)
{
    static const char *const starts[] = { "tsconfig", "jsconfig", "devcontainer.json", ".eslintrc",
                                          ".babelrc" };
    const char *name = base_name(path);
    for (size_t i = 0; i < N_ELEMENTS(starts); i++)
        if (strncasecmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    return strncmp(path, ".vscode/", 8) == 0 || strstr(path, "/.vscode/") != NULL;
}

static const struct judge *find_judge(const char *path)
{
    const char *dot = strrchr(base_name(path), '.');
    for (size_t i = 0; dot != NULL && i < N_ELEMENTS(judges); i++)
        if (strcasecmp(dot + 1, judges[i].extension) == 0)
            return judges[i].check == json_check && is_known_to_have_comments(path) ? &with_comments
                                                                                    : &judges[i];
    return NULL;
}

bool syntax_reads(const char *path)
{
    const struct judge *judge = find_judge(path);
    return judge != NULL && judge->check != NULL;
}

static bool is_utf16(struct bytes content)
{
    return bytes_begin_with(content, (struct bytes){ "\xFF\xFE", 2 }) ||
           bytes_begin_with(content, (struct bytes){ "\xFE\xFF", 2 });
}

static void let_templates_pass(const struct judge *judge, struct bytes content, struct syntax_verdict *ret)
{
    struct syntax_verdict found = *ret;
    if (found.outcome == SYNTAX_INVALID && template_is_likely(content, judge->braces_are_common))
        verdict_skipped(ret, "it looks like a template: %s", found.message);
}

void syntax_check(const char *path, struct bytes content, struct syntax_verdict *ret)
{
    const struct judge *judge = find_judge(path);
    content = bytes_placed(content);
    if (judge == NULL)
        verdict_skipped(ret, "nothing here knows the syntax of files with this name");
    else if (is_utf16(content))
        verdict_skipped(ret, "it is UTF-16");
    else if (judge->check == NULL)
        *ret = (struct syntax_verdict){ .outcome = SYNTAX_ASK };
    else {
        bool has_bom = bytes_begin_with(content, (struct bytes){ "\xEF\xBB\xBF", 3 });
        judge->check(has_bom ? bytes_from(content, 3) : content, ret);
        let_templates_pass(judge, content, ret);
    }
}

/* ---- programs ---- */

/* Answers "ok", "skip WHY", or "bad LINE COLUMN MESSAGE". compile() makes code and runs none of it; -I and -S
 * keep modules of the workspace out. What is UTF-8 is given as text, in which python3 counts
 * columns by characters; other bytes as they are, so that an encoding cookie counts. */
static const char script[] =
    "import sys\n"
    "def say(*words):\n"
    "    sys.stdout.buffer.write(' '.join(map(str, words)).encode('utf-8', 'replace')[:4000])\n"
    "    sys.stdout.flush()\n"
    "    sys.exit(0)\n"
    "def line_at(at, data):\n"
    "    return data.count(b'\\n', 0, at) + 1\n"
    "data = sys.stdin.buffer.read()\n"
    "if sys.argv[1] == 'toml':\n"
    "    import re\n"
    "    try:\n"
    "        import tomllib\n"
    "    except ImportError:\n"
    "        say('skip', 'python3 has no tomllib (it came with 3.11)')\n"
    "    try:\n"
    "        text = data.decode('utf-8-sig')\n"
    "        tomllib.loads(text)\n"
    "    except UnicodeDecodeError as e:\n"
    "        say('bad', line_at(e.start, data), 0, 'it is not UTF-8')\n"
    "    except tomllib.TOMLDecodeError as e:\n"
    "        at = re.search(r' \\(at line (\\d+), column (\\d+)\\)$', str(e))\n"
    "        end = (text.count('\\n') + 1, len(text) - text.rfind('\\n'))\n"
    "        line, column = at.groups() if at else end\n"
    "        say('bad', line, column, str(e)[:at.start()] if at else str(e))\n"
    "    except RecursionError:\n"
    "        say('skip', 'it is nested too deep for tomllib')\n"
    "    except Exception as e:\n"
    "        say('skip', 'tomllib cannot read it:', str(e) or type(e).__name__)\n"
    "    say('ok')\n"
    "try:\n"
    "    source = data.decode('utf-8-sig')\n"
    "except UnicodeDecodeError:\n"
    "    source = data\n"
    "try:\n"
    "    compile(source, 'file', 'exec', dont_inherit=True)\n"
    "except SyntaxError as e:\n"
    "    nul = data.find(b'\\0')\n"
    "    say('bad', e.lineno or (line_at(nul, data) if nul >= 0 else 0), e.offset or 0, e.msg +\n"
    "        ' for Python %d.%d' % sys.version_info[:2])\n"
    "except ValueError as e:\n"
    "    say('bad', line_at(max(data.find(b'\\0'), 0), data), 0, e)\n"
    "except (RecursionError, MemoryError):\n"
    "    say('skip', 'it is nested too deep for python3')\n"
    "except Exception as e:\n"
    "    say('skip', 'python3 cannot read it:', str(e) or type(e).__name__)\n"
    "say('ok')\n";

static const char *const python_program[] = { "python3", "-I", "-S",   "-B", "-W",
                                              "ignore",  "-c", script, "py", NULL };
static const char *const toml_program[] = { "python3", "-I", "-S",   "-B",   "-W",
                                            "ignore",  "-c", script, "toml", NULL };

static bool is_toml(const struct judge *judge)
{
    return strcmp(judge->extension, "toml") == 0;
}

const char *const *syntax_program(const char *path)
{
    const struct judge *judge = find_judge(path);
    if (judge == NULL || judge->check != NULL)
        return NULL;
    return is_toml(judge) ? toml_program : python_program;
}

/* A script for Python 2 says so in its first line. */
static bool is_python2(struct bytes content)
{
    struct bytes line = { "", 0 };
    size_t at = 0;
    line_next(content, &at, &line);
    return bytes_begin_with(line, (struct bytes){ "#!", 2 }) &&
           memmem(line.data, line.length, "python2", 7) != NULL;
}

/* A number and the blank behind it. */
static bool read_number(const char **text, size_t *ret)
{
    char *end;
    unsigned long number = **text >= '0' && **text <= '9' ? strtoul(*text, &end, 10) : ULONG_MAX;
    if (number > INT_MAX || *end != ' ')
        return false;
    *text = end + 1;
    *ret = number;
    return true;
}

/* text: behind "bad ". */
static void read_bad(const struct judge *judge, const char *text, struct syntax_verdict *ret)
{
    size_t line, column;
    if (!read_number(&text, &line) || !read_number(&text, &column)) {
        verdict_skipped(ret, "python3 gave no answer that can be read");
        return;
    }
    if (is_toml(judge))
        verdict_invalid(ret, line, column, "TOML parse error: %.200s at line %zu, column %zu", text, line,
                        column);
    else
        verdict_invalid(ret, line, column, "Python syntax error at line %zu: %.200s (column %zu)", line, text,
                        column);
}

void syntax_answer(const char *path, struct bytes content, struct bytes answer, struct syntax_verdict *ret)
{
    const struct judge *judge = find_judge(path);
    content = bytes_placed(content);
    size_t length = answer.length < SYNTAX_ANSWER_MOST ? answer.length : SYNTAX_ANSWER_MOST;
    _cleanup_free_ char *text = xstrndup(length > 0 ? answer.data : "", length);
    if (judge == NULL || judge->check != NULL) {
        verdict_skipped(ret, "no program judges files with this name");
        return;
    }
    if (strcmp(text, "ok") == 0)
        verdict_valid(ret);
    else if (strncmp(text, "skip ", 5) == 0 && text[5] != '\0')
        verdict_skipped(ret, "%.200s", text + 5);
    else if (strncmp(text, "bad ", 4) == 0)
        read_bad(judge, text + 4, ret);
    else
        verdict_skipped(ret, "python3 could not be run, or gave no answer in time");
    let_templates_pass(judge, content, ret);
    if (ret->outcome == SYNTAX_INVALID && !is_toml(judge) && is_python2(content))
        verdict_skipped(ret, "it is for Python 2");
}
