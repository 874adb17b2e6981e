/* How many names of packages a principal may have the gateway ask an index for within an hour, in all its
 * workspaces, those that are gone as well. What it wishes for is anybody's invention: without a bound it
 * would have one host ask for names without end. */
#ifndef WARDEN_ALLOWANCE_H
#define WARDEN_ALLOWANCE_H

#include "lib/config/config.h"

#include <jansson.h>

#define ALLOWANCE_ASKED 256
#define ALLOWANCE_REFUSED                                                                                    \
    10 /* names that could not be brought: then no wish is heeded until the hour is over */

#define ALLOWANCE_PRINCIPALS 4096 /* that are counted at a time; others have nothing left */

struct charge {
    int asked, refused; /* names; less than 0 = given back */
    int64_t took_ms;    /* of the gateway's time */
};

/* {"PRINCIPAL": {"since", "asked", "refused", "took_ms"}}, of those whose hour is not over. Unreadable =
 * empty. New reference. */
json_t *allowance_load(const struct config *config);
int allowance_save(const struct config *config, const json_t *all, struct error *err);
void allowance_charge(json_t *all, const char *principal, const struct charge *charge);
int64_t allowance_took(const json_t *all, const char *principal); /* ms */
/* That may be asked for before it is known which are refused. */
size_t allowance_left(const json_t *all, const char *principal);

#endif
