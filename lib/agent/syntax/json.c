/* Owns: judging JSON (RFC 8259, as jansson reads it), JSON lines, and JSON with comments.
 * It must not know: names of files. What jansson refuses although the grammar has it is not called invalid.
 */
#include "lib/agent/syntax/internal.h"

#include "lib/agent/edit/lines.h"
#include "lib/base/buffer.h"
#include "lib/base/utf8.h"

#include <jansson.h>

/* jansson's reason why a well-formed text may be refused; NULL: it is not well formed. */
static const char *limit_of_the_reader(const json_error_t *problem)
{
    switch ((int)json_error_code(problem)) {
    case json_error_numeric_overflow:
        return "a number in it is too large to be read";
    case json_error_stack_overflow:
        return "it is nested too deep to be read";
    case json_error_null_byte_in_key:
        return "a name in it has a NUL";
    case json_error_out_of_memory:
        return "there is no memory to read it";
    default:
        if (problem->text[0] == '\0') /* it tells of a grammar always, of memory not */
            return "there is no memory to read it";
        /* Half of a surrogate pair: the grammar has it, no character is it. */
        return strncmp(problem->text, "invalid Unicode '", 17) == 0 ? "it has escapes of no character" : NULL;
    }
}

/* Where the token begins that is complained of: jansson tells where it ends, and repeats it where it is
 * short. */
static size_t first_column(const json_error_t *problem)
{
    const char *near = strstr(problem->text, " near '");
    const char *end = near != NULL ? strrchr(near + 7, '\'') : NULL;
    size_t column = problem->column > 0 ? (size_t)problem->column : 1;
    size_t length = end != NULL ? utf8_count(near + 7, (size_t)(end - near) - 7) : 0;
    return length > 0 && length <= column ? column - length + 1 : column;
}

/* name: "JSON". line_offset is added to the line. */
static bool parse(struct bytes content, const char *name, size_t line_offset, struct syntax_verdict *ret)
{
    json_error_t problem;
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;
    json_auto_t *value = json_loadb(content.length > 0 ? content.data : "", content.length, flags, &problem);
    verdict_valid(ret);
    if (value != NULL)
        return true;
    const char *limit = limit_of_the_reader(&problem);
    size_t line = line_offset + (problem.line > 0 ? (size_t)problem.line : 1);
    size_t column = first_column(&problem);
    if (limit != NULL)
        verdict_skipped(ret, "%s (line %zu)", limit, line);
    else
        verdict_invalid(ret, line, column, "%s parse error at line %zu: %s (column %zu)", name, line,
                        problem.text, column);
    return false;
}

/* ---- comments ---- */

static size_t string_end(struct bytes text, size_t at)
{
    for (at++; at < text.length && text.data[at] != '"'; at++)
        at += text.data[at] == '\\';
    return at < text.length ? at + 1 : text.length;
}

/* Where the comment at `at` ends; at itself where there is none. One that is not closed takes all the rest.
 */
static size_t comment_end(struct bytes text, size_t at)
{
    if (bytes_begin_with(bytes_from(text, at), (struct bytes){ "//", 2 }))
        return bytes_find(text, at, '\n');
    if (!bytes_begin_with(bytes_from(text, at), (struct bytes){ "/*", 2 }))
        return at;
    for (size_t slash = at + 3; (slash = bytes_find(text, slash, '/')) < text.length; slash++)
        if (text.data[slash - 1] == '*')
            return slash + 1;
    return text.length;
}

static void blank_out(char *data, size_t from, size_t to)
{
    for (; from < to; from++)
        if (data[from] != '\n')
            data[from] = ' ';
}

/* In text, as many blanks for each comment; true = there was one. */
static bool blank_comments(struct buffer *text)
{
    struct bytes all = { text->data, text->length };
    bool found = false;
    for (size_t at = 0; at < all.length;) {
        size_t end = comment_end(all, at);
        if (end > at) {
            blank_out(text->data, at, end);
            found = true;
            at = end;
        } else
            at = all.data[at] == '"' ? string_end(all, at) : at + 1;
    }
    return found;
}

/* A comma before a closing bracket becomes a blank: what reads comments reads that. */
static void blank_last_commas(struct buffer *text)
{
    struct bytes all = { text->data, text->length };
    size_t comma = all.length; /* the last that nothing but white space follows */
    for (size_t at = 0; at < all.length;) {
        char c = all.data[at];
        if ((c == '}' || c == ']') && comma < all.length)
            text->data[comma] = ' ';
        if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
            comma = c == ',' ? at : all.length;
        at = c == '"' ? string_end(all, at) : at + 1;
    }
}

/* Without comments and last commas; true = there were comments. */
static bool parse_without_comments(struct bytes content, bool *ret_had_comments, struct syntax_verdict *ret)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    buffer_append(&text, content.data, content.length);
    *ret_had_comments = blank_comments(&text);
    blank_last_commas(&text);
    return parse((struct bytes){ text.data, text.length }, "JSON", 0, ret);
}

void jsonc_check(struct bytes content, struct syntax_verdict *ret)
{
    bool had_comments;
    parse_without_comments(content, &had_comments, ret);
}

/* Comments are not JSON, but many files called .json are read by what takes them. */
void json_check(struct bytes content, struct syntax_verdict *ret)
{
    struct syntax_verdict other;
    bool had_comments;
    if (parse(content, "JSON", 0, ret) || ret->outcome == SYNTAX_SKIPPED)
        return;
    bool is_fine = parse_without_comments(content, &had_comments, &other);
    if (had_comments && is_fine)
        verdict_skipped(ret, "it has comments, which plain JSON has not; without them it is well formed");
    else if (had_comments)
        *ret = other;
}

void jsonl_check(struct bytes content, struct syntax_verdict *ret)
{
    struct bytes line;
    size_t index = 0;
    verdict_valid(ret);
    for (size_t at = 0; line_next(content, &at, &line); index++)
        if (!line_is_blank(line) && !parse(line, "JSONL", index, ret))
            return;
}
