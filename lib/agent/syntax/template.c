/* Owns: telling templates, which are read only after something has filled them in, from files with mistakes.
 * It must not know: the grammars of what they make. */
#include "lib/agent/syntax/internal.h"

#include "lib/agent/edit/lines.h"

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static size_t skip_blanks(struct bytes line, size_t at)
{
    while (at < line.length && (line.data[at] == ' ' || line.data[at] == '\t'))
        at++;
    return at;
}

/* Where `end` stands last in a line; 0 = nowhere. Looked for once, as a line may be the whole file. */
static size_t last_end(struct bytes line, char first)
{
    for (size_t at = line.length; at >= 2; at--)
        if (line.data[at - 1] == '}' && line.data[at - 2] == first)
            return at - 2;
    return 0;
}

/* {% word ... %}, {%- word ... %} */
static bool has_statement(struct bytes line, size_t at, size_t end)
{
    size_t word = at + 2;
    if (word < line.length && (line.data[word] == '-' || line.data[word] == '+' || line.data[word] == '~'))
        word++;
    word = skip_blanks(line, word);
    return word < end && is_letter(line.data[word]);
}

/* {{ name ... }}, {{- .name }}, {{ $name }}, {{#each x}}, {{/each}}: not {{"name": 1}}, which is a mistake.
 */
static bool has_value(struct bytes line, size_t at, size_t end, bool braces_are_common)
{
    size_t name = at + 2;
    if (name < line.length && line.data[name] == '-')
        name++;
    name = skip_blanks(line, name);
    if (name >= end)
        return false;
    if (braces_are_common)
        return bytes_begin_with(bytes_from(line, name), (struct bytes){ "cookiecutter.", 13 });
    return is_letter(line.data[name]) || memchr(".$#/!>&^", line.data[name], 8) != NULL;
}

static bool line_is_of_template(struct bytes line, bool braces_are_common)
{
    size_t value_end = last_end(line, '}'), statement_end = last_end(line, '%');
    if (value_end + statement_end == 0)
        return false;
    for (size_t i = bytes_find(line, 0, '{'); i + 1 < line.length; i = bytes_find(line, i + 1, '{'))
        if ((line.data[i + 1] == '%' && has_statement(line, i, statement_end)) ||
            (line.data[i + 1] == '{' && has_value(line, i, value_end, braces_are_common)))
            return true;
    return false;
}

bool template_is_likely(struct bytes content, bool braces_are_common)
{
    struct bytes line;
    for (size_t at = 0; line_next(content, &at, &line);)
        if (line_is_of_template(line, braces_are_common))
            return true;
    return false;
}
