/* One warden at a time: who holds the place, who gives way to whom. For lib/warden alone. */
#ifndef WARDEN_TAKEOVER_H
#define WARDEN_TAKEOVER_H

#include "lib/config/config.h"

/* 1 = *ret_fd holds the lock, 0 = another warden stays (it was said which), -1 = error. */
int takeover_lock(const struct config *config, unsigned flags, int *ret_fd, struct error *err);

#endif
