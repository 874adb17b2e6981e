/* Processes of a state directory that are nobody's children: keepers outlive their warden on purpose. */
#ifndef FCGI_LEFTOVERS_H
#define FCGI_LEFTOVERS_H

/* Ends every `subcommand` process of this state directory: SIGTERM, SIGKILL after timeout_ms. Returns how
 * many there were. */
int leftovers_end(const char *state_dir, const char *subcommand, int timeout_ms);

#endif
