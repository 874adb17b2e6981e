/* `workspace-fcgi token add|list|revoke`. */
#ifndef FCGI_CMD_TOKEN_H
#define FCGI_CMD_TOKEN_H

#include "lib/config/config.h"

/* argv[0] = "token". First becomes the owner of the state directory. Exit status: 0, 1 = it failed, 2 = wrong
 * use. */
int cmd_token(const struct config *config, int argc, char **argv);

#endif
