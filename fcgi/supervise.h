/* A handful of daemons kept alive in the foreground: started, started again with a back-off when they end,
 * ended in order. */
#ifndef FCGI_SUPERVISE_H
#define FCGI_SUPERVISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct daemon {
    const char *name;
    char **argv;       /* argv[0] = path of the program */
    int stdin_fd;      /* -1 = /dev/null */
    const char *token; /* the owner's, for its environment; NULL = none */
    /* The rest belongs to supervise.c; zero-initialise. */
    pid_t pid;
    int pidfd;
    int64_t started_ms, delay_ms;
};
/* Blocks SIGINT, SIGTERM, SIGHUP, SIGCHLD for good; children get the default again. */
void supervise_begin(void);
void supervise_start(struct daemon *d);
/* Restarts what ends; true = one of SIGINT, SIGTERM, SIGHUP came; false = timeout_ms (-1 = never) passed. */
bool supervise_wait(struct daemon *daemons, size_t count, int timeout_ms);
/* SIGTERM, and SIGKILL after timeout_ms or on a second signal. */
void supervise_end(struct daemon *d, int timeout_ms);

#endif
