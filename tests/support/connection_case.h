/* What the suites on FastCGI connections share: a server in a child process, with a handful of answers, on a
 * real UNIX socket. */
#ifndef TESTS_CONNECTION_CASE_H
#define TESTS_CONNECTION_CASE_H

#include "tests/support/fcgi.h"

#include <stddef.h>
#include <sys/types.h>

extern char connection_path[96]; /* of the socket */
extern pid_t connection_server;
/* A client that is silent or idle for 1.5 s is dropped. The teardown drains the server and demands that no
 * exchange is left parked. Fixtures of Check. */
void connection_set_up(void);
void connection_tear_down(void);

/* What there is to ask for: "/" hello; "/body" its own body; "/park", "/deaf" late, after 300 ms, of which
 * the latter does not listen for a client's end; "/park-long" never; "/large", "/stream" these bytes, whole
 * or as they drain; "/count" numbers about the server, see connection_count. */
enum { CONNECTION_LARGE = 8 << 20 };
char connection_large_byte(size_t at);
extern const size_t connection_parked_bytes; /* what the server itself keeps of a parked one */

void connection_ask(int fd, const char *uri, bool keep, struct fcgi_answer *a);
int connection_count(const char *member); /* "heap", "gone", "parked", "open" */
bool connection_becomes(const char *member, int wanted, int ms);
bool connection_closes(int fd, int ms); /* the peer closed within ms */
/* Of each program's main: clients go away while they are written to. */
void connection_begin(void);

#endif
