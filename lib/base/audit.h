/* The audit log: one line of JSON for each call and each change of state, in one file that all processes of a
 * state directory append to. A line is whole or absent, whoever writes or rotates beside it; what a full disk
 * takes away is counted, and told by the next line that finds room. Thread-safe; fork(2) is taken care of. A
 * line costs a few system calls; nothing here waits for the disk, and for another process 10 ms at most. */
#ifndef BASE_AUDIT_H
#define BASE_AUDIT_H

#include "lib/base/buffer.h"

#include <stdbool.h>

#define AUDIT_LINE_MAX 4096 /* bytes of a line */
#define AUDIT_TEXT_MAX 200  /* characters of a value; the rest is counted */

enum audit_level { AUDIT_OFF, AUDIT_CHANGES /* without calls that only read */, AUDIT_ALL };

/* name: the subcommand that lines are from; directory: where audit.log lies, made when the first line comes;
 * bytes: a file that would grow beyond is set aside; files: how many such are kept. */
void audit_init(const char *name, enum audit_level level, const char *directory, int64_t bytes, int files);
bool audit_enabled(enum audit_level level);

/* While batching, lines are collected and written by audit_flush (or when 32 KiB are full). */
void audit_batch(bool on);
bool audit_waits(void); /* there is something to flush */
void audit_flush(void);

/* ---- a line ---- */
/* {"time": ..., "from": ..., "pid": ..., "kind": kind. A member that finds no room is left out. */
void audit_begin(struct buffer *line, const char *kind);
void audit_text(struct buffer *line, const char *name, const char *text); /* text NULL: nothing */
void audit_number(struct buffer *line, const char *name, int64_t value);
void audit_flag(struct buffer *line, const char *name, bool value);
void audit_json(struct buffer *line, const char *name, const char *json, size_t length); /* as it is */
/* Ends the line and writes it. */
void audit_end(struct buffer *line);

/* A value as a log shows it, as the inside of a JSON string: AUDIT_TEXT_MAX characters and how many there are
 * in all, without the user information of URLs and without what follows "Bearer". */
void audit_append_shown(struct buffer *out, const char *text, size_t length);

#endif
