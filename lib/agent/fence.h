/* No way to sockets without a file that somebody outside of the sandbox listens on. */
#ifndef AGENT_FENCE_H
#define AGENT_FENCE_H

/* Binds this process and all that it starts. Where the kernel cannot (before Linux 6.12), nothing happens. */
void fence_install(void);

#endif
