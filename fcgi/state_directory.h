/* The state directory itself; what lies in it belongs to the stores, the warden and the keepers. */
#ifndef FCGI_STATE_DIRECTORY_H
#define FCGI_STATE_DIRECTORY_H

#include "lib/config/config.h"

/* Made by root it belongs to the workers' user; one that exists keeps its owner. */
int state_directory_make(const struct config *config, struct error *err);
/* Makes the folders that hold it and this program reachable for the workers' user, where they are not. */
int state_directory_reach(const struct config *config, struct error *err);
/* For operators' commands: makes it, reaches it, becomes its owner. */
int state_directory_enter(const struct config *config, struct error *err);

#endif
