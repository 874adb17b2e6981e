/* What an installation takes at a moment: memory, descriptors, files. */
#ifndef CHAOS_GAUGE_H
#define CHAOS_GAUGE_H

#include "tests/support/instance.h"

double gauge_descriptors(pid_t pid);
double gauge_deleted_kib(pid_t pid); /* disk space of files that were removed but are still open */
double gauge_file_kib(const char *format, ...) __attribute__((format(printf, 1, 2)));
double gauge_entries(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A mean over the processes of one kind with this in their command line, but the warden's chores; NAN where
 * there is none. */
double gauge_mean(const struct instance *i, const char *subcommand, const char *with, double (*gauge)(pid_t));

#endif
