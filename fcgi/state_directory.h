/* The state directory itself; what lies in it belongs to the stores, the warden and the keepers. Every
 * refusal names path, owner and cure: it is for the operator. */
#ifndef FCGI_STATE_DIRECTORY_H
#define FCGI_STATE_DIRECTORY_H

#include "lib/config/config.h"

/* For run, serve, warden and `token add`: made where it is missing (it is said on stderr); an empty one of
 * root's is given to the workers' user, another one that they could not use is refused. */
int state_directory_make(const struct config *config, struct error *err);
/* Where conf/lighttpd.conf spools uploads: for the workers' user alone, as which lighttpd runs too. */
int state_directory_make_uploads(const struct config *config, struct error *err);
/* For what only looks: nothing is made or changed. ERROR_NOT_FOUND: there is none. */
int state_directory_find(const struct config *config, struct error *err);
/* What is wrong with it as it is, as state_directory_find says it, but that root's empty one is fine. */
int state_directory_check(const struct config *config, struct error *err);
/* Makes the folders that hold it and this program reachable for the workers' user, where they are not. */
int state_directory_reach(const struct config *config, struct error *err);
/* For operators' commands: makes or finds it, reaches it, becomes its owner. */
int state_directory_enter(const struct config *config, bool make, struct error *err);

#endif
