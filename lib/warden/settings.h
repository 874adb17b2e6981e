/* The environment of keepers, chores and wardens: the own one, with the settings as this process has them on
 * top, and without secrets. */
#ifndef WARDEN_SETTINGS_H
#define WARDEN_SETTINGS_H

#include "lib/config/config.h"

char **settings_environment(const struct config *config); /* NULL-ended; every string is its own */
void settings_free_environment(char **environment);

#endif
