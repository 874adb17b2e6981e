/* One writer of log lines: "TIME LEVEL subcommand[pid] text" or, for operations, key=value pairs. Control
 * bytes and bytes that are not UTF-8 are escaped (\xNN); a line is one write(2) of at most 8 KiB. Never pass
 * secrets, tokens, values of environment variables or output of commands. Thread-safe. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "lib/base/memory.h"

#include <stdbool.h>

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };

/* name: the subcommand shown; path: NULL or "" = stderr, else a file opened with O_APPEND. */
void log_init(const char *name, enum log_level level, const char *path);
/* For a process that outlives who started it: stderr is the log's file too, where it has one. */
void log_take_stderr(void);
bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
#define log_debug(...)   log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
#define log_info(...)    log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_error(...)   log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
/* While batching, lines are collected and written by log_flush (or when 64 KiB are full): a worker's loop
 * flushes once a turn. */
void log_batch(bool on);
void log_flush(void);

#endif
