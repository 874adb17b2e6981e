/* Options that every subcommand takes: --config FILE, --set NAME=VALUE, and --state DIR and --workers N,
 * which are short for such. They are kept, so that settings can be loaded again. */
#ifndef FCGI_OPTIONS_H
#define FCGI_OPTIONS_H

#include "lib/config/config.h"

struct options {
    const char *state, *config; /* as given; NULL = not */
    char **overrides;           /* NAME=VALUE, NULL-ended, --state and --workers among them */
    char **argv;                /* what is left: argv[0] is the subcommand */
    int argc;
};
/* Strings of argv are kept by pointer. */
int options_parse(int argc, char **argv, struct options *ret, struct error *err);
void options_clear(struct options *o);
struct config *options_load(const struct options *o, struct error *err);
/* What options_parse found in this process, for a reload. */
const struct options *options_of_process(void);
void options_set_of_process(const struct options *o);
/* This program's path; caller frees. */
char *options_program(void);

#endif
