/* The programs that commands of agents count on: which there are, which are missing, and what brings them. */
#ifndef DRIVER_LOCAL_TOOLS_H
#define DRIVER_LOCAL_TOOLS_H

#include "lib/config/config.h"

#include <jansson.h>
#include <stdbool.h>

/* Inside: programs of the state directory's folder `tools`, and the names that the host's lack. */
#define SANDBOX_TOOLS "/run/workspace/tools"
#define SANDBOX_NAMES "/run/workspace/bin"

struct tool {
    const char *name;
    const char *host_name; /* as the host may call it instead; NULL = the same */
    const char *package;   /* of Debian; NULL = none has it */
};
extern const struct tool tools[];
extern const size_t tool_count;

/* Where a sandbox finds the tool: a path of the host's, or of the tools folder. NULL = nowhere; caller frees.
 */
char *tools_find(const struct config *config, const struct tool *tool);
/* The folder `tools` of the state directory where there is one, else NULL; caller frees. */
char *tools_folder(const struct config *config);
/* A program of /usr, where alone sandboxes see the host's; NULL = none; caller frees. */
char *tools_find_in_usr(const char *name);
bool tools_is_listed(const char *name);
/* The names of those that are nowhere; a new reference. */
json_t *tools_missing(const struct config *config);

#endif
