/* How many names of packages a workspace may have the gateway ask an index for within an hour. What it wishes
 * for is anybody's invention: without a bound it would have one host ask for names without end. */
#ifndef WARDEN_ALLOWANCE_H
#define WARDEN_ALLOWANCE_H

#include "lib/config/config.h"

#include <jansson.h>

#define ALLOWANCE_ASKED 256
#define ALLOWANCE_REFUSED                                                                                    \
    10 /* names that could not be brought: then no wish is heeded until the hour is over */

/* {"ws-...": {"since", "asked", "refused"}}, of those whose hour is not over. Unreadable = empty. New
 * reference. */
json_t *allowance_load(const struct config *config);
int allowance_save(const struct config *config, const json_t *all, struct error *err);
void allowance_charge(json_t *all, const char *ws, int asked, int refused);
size_t allowance_asked(const json_t *all, const char *ws);
/* That may be asked for before it is known which are refused. */
size_t allowance_left(const json_t *all, const char *ws);

#endif
