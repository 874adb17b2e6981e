/* The recorded outputs of tests/cases/outputs: raw bytes that real tools wrote, under a pipe and under a
 * terminal. */
#ifndef TESTS_RECORDINGS_H
#define TESTS_RECORDINGS_H

#include "lib/base/buffer.h"

#include <stdbool.h>

struct recording {
    char name[64];  /* git-clone.pty */
    char kind[24];  /* git, tests, build ...; see INDEX */
    bool reported;  /* of the half that nothing is tuned on */
    size_t columns; /* of its terminal, 0 = a pipe */
    struct buffer raw;
};

struct recordings {
    struct recording *rows;
    size_t count;
};

/* Every one, in the order of INDEX; ends the program where one cannot be read. */
void recordings_load(struct recordings *all);
void recordings_free(struct recordings *all);

#endif
