/* A small filter of the agent's own, under whatever filter the driver gives. */
#ifndef AGENT_GUARD_H
#define AGENT_GUARD_H

/* For this process and all that comes from it: the limits of other processes can be read, not set. Needs
 * no_new_privs. Where the kernel has no filters it does nothing. */
void guard_install(void);

#endif
