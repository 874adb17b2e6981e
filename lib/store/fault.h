/* Damaged files may fault whoever reads their map, or fail an assertion of LMDB: what reads them runs under a
 * guard that ends the reading instead of the process. For lib/store alone. */
#ifndef STORE_FAULT_H
#define STORE_FAULT_H

#include <lmdb.h>
#include <stdbool.h>

typedef void fault_body(void *user);
/* Runs body. False: it met SIGBUS, SIGSEGV or a failed assertion and was left where it stood: what it had
 * allocated is lost, what it was changing must be given up. Of this thread alone; guards nest. */
bool fault_guard(fault_body *body, void *user);
/* To be set with mdb_env_set_assert: ends the guarded body, where there is one. */
void fault_assert(MDB_env *env, const char *message);

#endif
