/* Whether a file's new content can be read by what its name says it is for. Knows no files: name and bytes
 * in, a verdict out.
 *
 * JSON, JSONL, JSON with comments and YAML are judged here. For 5 MB made to hurt, syntax_check() takes 220
 * MB (JSON), seconds or, with many directives, minutes (YAML): where syntax_reads(), let a forked process run
 * it, with a deadline. Python and TOML are judged by a program of the sandbox, which whoever calls runs:
 * syntax_program() says which. */
#ifndef SYNTAX_SYNTAX_H
#define SYNTAX_SYNTAX_H

#include "lib/agent/edit/bytes.h"

enum syntax_outcome {
    SYNTAX_VALID,
    SYNTAX_INVALID,
    SYNTAX_SKIPPED, /* nobody knows; message says why */
    SYNTAX_ASK      /* run syntax_program() and give syntax_answer() what it wrote */
};

struct syntax_verdict {
    enum syntax_outcome outcome;
    size_t line, column; /* from 1; 0 = not known; a column counts characters. Of SYNTAX_INVALID */
    char message[400];   /* UTF-8: "JSON parse error at line 3: ..." */
};

/* Whether syntax_check() reads the content of such a file, rather than say at once who else does. */
bool syntax_reads(const char *path);
/* path: its extension counts, and for few its name. */
void syntax_check(const char *path, struct bytes content, struct syntax_verdict *ret);

/* The arguments, ended by NULL, of the program that judges this file: it is to be looked up on PATH, reads
 * the content from its standard input and answers on its standard output in at most SYNTAX_ANSWER_MOST bytes.
 * It runs nothing of the content and imports nothing of the workspace. NULL: none is needed. */
enum { SYNTAX_ANSWER_MOST = 4096 };
const char *const *syntax_program(const char *path);
/* answer: what it wrote, hostile; empty: it could not be run, crashed or took too long. */
void syntax_answer(const char *path, struct bytes content, struct bytes answer, struct syntax_verdict *ret);

/* A file that could not be read before either is not held against an edit of it: an invalid verdict on what
 * is after becomes a skipped one. */
void syntax_weigh(const struct syntax_verdict *before, struct syntax_verdict *after);

#endif
