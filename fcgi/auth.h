/* Bearer token -> principal. The owner's token comes from the settings, others from the store by hash; no
 * token configured at all is ERROR_UNAVAILABLE (503), a missing or wrong one ERROR_UNAUTHORIZED. Exactly
 * "Bearer " (any case of the scheme), constant-time compare. */
#ifndef FCGI_AUTH_H
#define FCGI_AUTH_H

#include "lib/op/op.h"
#include "lib/store/state.h"

int auth_check(const struct config *config, struct state *state, const char *authorization,
               struct principal *ret, struct error *err);
/* The header line that goes with a refusal; NULL = none. */
const char *auth_challenge(const char *authorization, const struct error *err);
void principal_clear(struct principal *p);

#endif
