/* What the judges of this room share. */
#ifndef SYNTAX_INTERNAL_H
#define SYNTAX_INTERNAL_H

#include "lib/agent/syntax/syntax.h"
#include "lib/base/memory.h"

void verdict_valid(struct syntax_verdict *ret);
void verdict_skipped(struct syntax_verdict *ret, const char *format, ...) PRINTF_LIKE(2, 3);
/* The message is format's; what it has of the content may be any bytes. */
void verdict_invalid(struct syntax_verdict *ret, size_t line, size_t column, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* Each gets the content without a byte order mark. */
void json_check(struct bytes content, struct syntax_verdict *ret);
void jsonc_check(struct bytes content, struct syntax_verdict *ret);
void jsonl_check(struct bytes content, struct syntax_verdict *ret);
void yaml_check(struct bytes content, struct syntax_verdict *ret);

/* Marks of a template: {{ name }}, and {% word %} or {{ cookiecutter.name }} alone where braces are common.
 */
bool template_is_likely(struct bytes content, bool braces_are_common);

#endif
