/* Owns: judging YAML, as libyaml reads it: any number of documents, any tags.
 * It must not know: what a document means; aliases, duplicate keys and types are not looked at. */
#include "lib/agent/syntax/internal.h"

#include "lib/agent/edit/lines.h"

#include <yaml.h>

/* libyaml's time for each token grows with the depth that it stands at. */
enum { DEPTH_MOST = 256 };

static void yaml_problem(const yaml_parser_t *parser, struct bytes content, struct syntax_verdict *ret)
{
    const char *problem = parser->problem != NULL ? parser->problem : "it cannot be read";
    size_t line = parser->problem_mark.line + 1, column = parser->problem_mark.column + 1;
    if (parser->error == YAML_MEMORY_ERROR) {
        verdict_skipped(ret, "there is no memory to read it");
        return;
    }
    if (parser->error == YAML_READER_ERROR) {
        size_t at = parser->problem_offset < content.length ? parser->problem_offset : content.length;
        line = 1 + lines_count_ends(bytes_cut(content, 0, at));
        column = 1 + at - line_start(content, at);
    }
    if (parser->context != NULL)
        verdict_invalid(ret, line, column, "YAML parse error: %s, %s at line %zu, column %zu",
                        parser->context, problem, line, column);
    else
        verdict_invalid(ret, line, column, "YAML parse error: %s at line %zu, column %zu", problem, line,
                        column);
}

void yaml_check(struct bytes content, struct syntax_verdict *ret)
{
    yaml_parser_t parser;
    yaml_event_t event;
    bool at_end = false;
    int depth = 0;
    if (!yaml_parser_initialize(&parser)) {
        verdict_skipped(ret, "there is no memory to read it");
        return;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)content.data, content.length);
    verdict_valid(ret);
    while (!at_end && ret->outcome == SYNTAX_VALID) {
        if (!yaml_parser_parse(&parser, &event)) {
            yaml_problem(&parser, content, ret);
            break;
        }
        at_end = event.type == YAML_STREAM_END_EVENT;
        depth += event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        depth -= event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        if (depth > DEPTH_MOST)
            verdict_skipped(ret, "it is nested more than %d deep", DEPTH_MOST);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
}
