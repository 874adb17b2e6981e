/* Processes of a state directory that are nobody's children: keepers outlive their warden on purpose, a web
 * server outlives a `run` that was killed. */
#ifndef FCGI_LEFTOVERS_H
#define FCGI_LEFTOVERS_H

/* Which: the executable, its first argument, and an option with its value. */
struct leftover {
    const char *program, *first, *option, *value;
};
/* Ends every such process but this one: SIGTERM, SIGKILL after timeout_ms. Returns how many there were. */
int leftovers_end(const struct leftover *which, int timeout_ms);

#endif
