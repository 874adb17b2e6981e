/* The workspace of a principal that tools mean where none is named. */
#ifndef FCGI_DEFAULT_WORKSPACE_H
#define FCGI_DEFAULT_WORKSPACE_H

#include "lib/base/ids.h"
#include "lib/op/op.h"
#include "lib/store/state.h"

#define DEFAULT_WORKSPACE "default"

/* 0 = id is the one that the token is bound to, else the first made of those named "default". 1 = there is
 * none. */
int default_workspace_find(struct state *state, const struct principal *principal, char id[static ID_SIZE],
                           struct error *err);
/* The record of one to be created; a new reference. */
json_t *default_workspace_record(const struct config *config, const struct principal *principal,
                                 struct error *err);

#endif
