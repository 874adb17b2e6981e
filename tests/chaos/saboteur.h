/* Who breaks things: one deed after the other, chosen by the seed from a table. */
#ifndef CHAOS_SABOTEUR_H
#define CHAOS_SABOTEUR_H

#include "tests/support/instance.h"

/* For so many seconds, or until something failed. Everything that was stopped, filled or shifted is put right
 * again at the end. */
void saboteur_run(const struct instance *i, unsigned seconds);

#endif
