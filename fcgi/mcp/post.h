/* The messages of one POST of MCP, after who sends it is known. */
#ifndef FCGI_MCP_POST_H
#define FCGI_MCP_POST_H

#include "fcgi/dispatch.h"

/* Reads x's body and answers it. principal is moved; sets: the toolsets that tools/list shows, "" = as the
 * settings say. */
void post_begin(struct service *s, struct exchange *x, struct principal *principal, const char *sets);

#endif
