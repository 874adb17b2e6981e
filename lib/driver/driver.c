/* The drivers by name: one table. Knows nothing of what they do. */
#include "lib/driver/driver.h"

static const struct driver *const drivers[] = { &driver_local };

const char *const driver_names[] = { "local", NULL };

_Static_assert(N_ELEMENTS(driver_names) == N_ELEMENTS(drivers) + 1, "each driver has one name");

const struct driver *driver_find(const char *name)
{
    for (size_t i = 0; name && i < N_ELEMENTS(drivers); i++)
        if (!strcmp(drivers[i]->name, name))
            return drivers[i];
    return NULL;
}
