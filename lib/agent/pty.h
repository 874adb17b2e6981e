/* Pseudo terminals of this sandbox's devpts. */
#ifndef AGENT_PTY_H
#define AGENT_PTY_H

#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* A master (non-blocking) and its slave, sized. On failure errno is set too. */
int pty_open(uint16_t rows, uint16_t cols, int *ret_master, int *ret_slave, struct error *err);
void pty_resize(int master, uint16_t rows, uint16_t cols); /* the kernel sends SIGWINCH */
/* The character that means end of file on this terminal now. */
char pty_eof_character(int master);
/* Does this byte end a line on this terminal now? */
bool pty_ends_line(int master, char byte);
/* As if its key were pressed: INT, QUIT and TSTP go to the foreground process group. false = not such a
 * signal. */
bool pty_signal(int master, int signal_number);

#endif
