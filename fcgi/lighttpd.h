/* The web server that `run` starts: finding it, its configuration, its address. */
#ifndef FCGI_LIGHTTPD_H
#define FCGI_LIGHTTPD_H

#include "lib/config/config.h"

struct lighttpd {
    const char *host, *port; /* as given */
    char *program, *conf;    /* owned */
};
/* Finds the program, checks that the address is free, writes <state_dir>/lighttpd.conf and sets the
 * environment it reads. */
int lighttpd_prepare(const struct config *config, const char *host, const char *port, size_t file_limit,
                     struct lighttpd *ret, struct error *err);
void lighttpd_clear(struct lighttpd *l);
/* "http://127.0.0.1:8080": where a client on this machine reaches it. */
char *lighttpd_url(const struct lighttpd *l);
/* Whether it accepts connections now. */
bool lighttpd_answers(const struct lighttpd *l);

#endif
