/* The web server that `run` starts: finding it, its configuration, its address. */
#ifndef FCGI_LIGHTTPD_H
#define FCGI_LIGHTTPD_H

#include "lib/config/config.h"

struct lighttpd {
    const char *host, *port, *mount; /* as given */
    char *program, *conf;            /* owned */
};
/* Finds the program, checks that the address is free, writes <state_dir>/lighttpd.conf and sets the
 * environment it reads. */
int lighttpd_prepare(const struct config *config, const char *host, const char *port, size_t file_limit,
                     struct lighttpd *ret, struct error *err);
void lighttpd_clear(struct lighttpd *l);
/* "http://127.0.0.1:8080": where a client on this machine reaches it. */
char *lighttpd_url(const struct lighttpd *l);
/* Whether a worker answers through it now; waits 2 s at most. */
bool lighttpd_is_healthy(const struct lighttpd *l);
/* Whether nobody but this machine can reach it. */
bool lighttpd_is_private(const struct lighttpd *l);

#endif
