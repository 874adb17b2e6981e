/* Readers: processes of their own that follow other people's commands, by cursor and as streams, and are
 * killed at any time. */
#ifndef CHAOS_READER_H
#define CHAOS_READER_H

/* The main of a reader: argv is {program, "reader", descriptor of the ledger, number}. */
int reader_main(char **argv);

#endif
