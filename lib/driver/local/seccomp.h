/* The system calls that commands in a sandbox may not make. */
#ifndef DRIVER_LOCAL_SECCOMP_H
#define DRIVER_LOCAL_SECCOMP_H

#include "lib/base/error.h"

/* A descriptor (memfd, read from its start) holding the BPF program, for the agent to install in its
 * children. */
int seccomp_program(struct error *err);

#endif
