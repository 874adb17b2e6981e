/* Who uses the gateway during the storm: threads that make workspaces, run commands in them, type, cancel,
 * read, judge and remove. */
#ifndef CHAOS_TENANT_H
#define CHAOS_TENANT_H

#include "tests/chaos/ledger.h"
#include "tests/support/instance.h"

struct tenants;
struct tenants *tenants_start(const struct instance *i, unsigned count);
/* After ledger->closing: waits for their last commands. */
void tenants_join(struct tenants *t);

/* Follows a command to its exit event and judges it. strict: every request must succeed at once. */
bool tenant_check(const struct instance *i, struct entry *e, long deadline_ms, bool strict, uint64_t *random);

#endif
