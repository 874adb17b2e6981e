/* How a state store of an older program becomes one of this program: ordered rows, run under the write lock.
 */
#ifndef STORE_MIGRATE_H
#define STORE_MIGRATE_H

#include "lib/store/transaction.h"

struct migration {
    int version; /* the store's after it; 1, 2, 3 ... */
    const char *name;
    int (*run)(struct transaction *t, struct error *err); /* NULL = only the number changes */
};
/* All of this program's rows that the store has not had, in one transaction. ERROR_UNAVAILABLE where the
 * store is newer. */
int migrate_state(struct state *s, struct error *err);
/* The same with other rows (for tests). */
int migrate_rows(struct state *s, const struct migration *rows, size_t count, struct error *err);

#endif
