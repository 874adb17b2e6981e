/* Finding the processes of the installation by what they are. */
#ifndef CHAOS_PREY_H
#define CHAOS_PREY_H

#include "tests/chaos/ledger.h"
#include "tests/support/instance.h"

enum role {
    ROLE_WORKER,
    ROLE_MASTER,
    ROLE_WARDEN,
    ROLE_KEEPER,
    ROLE_BOX,
    ROLE_AGENT,
    ROLE_FRONT,
    ROLE_READER,
    ROLES
};
const char *prey_name(enum role role);

struct prey {
    pid_t pid;
    int pidfd;           /* close it */
    struct place *place; /* of keeper, box and agent */
    char workspace[40];
};
/* The chosen one of them (choice modulo how many there are). false = there is none at the moment. */
bool prey_find(const struct instance *i, enum role role, unsigned choice, struct prey *ret);

/* Readers are the driver's own children; it reaps all that is orphaned to it, too. */
void readers_start(unsigned count, int ledger_fd);
void readers_end(void);
/* run: instance.c's child, which is left alone; 0 = it is gone already. */
void reap(pid_t run);
unsigned children_left(pid_t run, char *first, size_t size); /* but that */

#endif
