/* What must be true when all is over: first while the installation still runs, then after it was ended. */
#ifndef CHAOS_AFTERMATH_H
#define CHAOS_AFTERMATH_H

#include "tests/support/instance.h"

void aftermath_running(const struct instance *i);
/* state_dir and log are those of the instance, which is gone. */
void aftermath_ended(const char *state_dir, const char *log);

#endif
