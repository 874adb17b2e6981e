/* The subcommands. Each gets the settings and its own arguments (argv[0] is its name, global options are
 * taken out) and returns the exit status. main.c has the table. */
#ifndef FCGI_COMMANDS_H
#define FCGI_COMMANDS_H

#include "lib/config/config.h"

#include <stdio.h>

/* The exit status that makes main.c print the subcommand's usage; the command has said what is wrong. */
enum { COMMAND_WRONG_USE = 2 };
/* Says which word of its arguments a subcommand does not know; NULL = one is missing. COMMAND_WRONG_USE. */
int command_wrong_use(const char *command, const char *word);

int cmd_serve(const struct config *config, int argc, char **argv);
int cmd_run(const struct config *config, int argc, char **argv);
int cmd_warden(const struct config *config, int argc, char **argv);
int cmd_keep(const struct config *config, int argc, char **argv);
int cmd_token(const struct config *config, int argc, char **argv);
int cmd_call(const struct config *config, int argc, char **argv);
/* The end of its help: the operations, or with a name the parameters of one. The exit status. */
int cmd_call_help(const char *name);
int cmd_describe(const struct config *config, int argc, char **argv);
int cmd_tools(const struct config *config, int argc, char **argv);
int cmd_doctor(const struct config *config, int argc, char **argv);

#endif
