/* What both stores need of LMDB: opening an environment with its files made first, growing its map, beginning
 * transactions, translating errors. For lib/store alone. */
#ifndef STORE_ENVIRONMENT_H
#define STORE_ENVIRONMENT_H

#include "lib/base/error.h"

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

struct environment_options {
    const char *path;  /* a directory that exists */
    unsigned flags;    /* MDB_NOTLS is added */
    unsigned readers;  /* slots, where the lock file is made new */
    unsigned tables;   /* named ones; 0 = only the main one */
    int64_t map_bytes; /* 0 = as the file says */
};
/* lock.mdb is allocated in full and data.mdb made, both mode 0660 with the owner of the directory, before
 * LMDB sees them (with MDB_RDONLY only the lock). *ret_damaged (may be NULL) = the files are not an
 * environment that this program can read. Never twice for one path in one process. */
int environment_open(const struct environment_options *options, MDB_env **ret, bool *ret_damaged,
                     struct error *err);
/* LMDB's result says that what it read makes no sense. */
bool environment_is_damage(int result);
/* A transaction; a map that another process grew and reader slots of the dead are dealt with inside. No
 * transaction of this environment may live in this process but a write transaction's reader that is reset.
 * flags: 0 or MDB_RDONLY. */
int environment_begin(MDB_env *env, unsigned flags, MDB_txn **ret, struct error *err);
/* mdb_txn_renew with the same care. */
int environment_renew(MDB_txn *txn, struct error *err);
/* mdb_txn_commit; ENOSPC also where LMDB calls a short write on a full disk EIO. */
int environment_commit(MDB_txn *txn);
/* Doubles the map. No live transaction in this process. */
int environment_grow(MDB_env *env, struct error *err);
double environment_fill(MDB_env *env); /* 0..1 */
/* Sets err from LMDB's result and returns -1; a full disk and a full map are ERROR_FULL. */
int environment_error(struct error *err, int result, const char *what);

#endif
