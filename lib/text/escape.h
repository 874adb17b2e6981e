/* Escape sequences of ECMA-48 and xterm: how long one is and what it asks for. */
#ifndef TEXT_ESCAPE_H
#define TEXT_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

enum { ESCAPE_PARAMETERS = 4, ESCAPE_PARAMETER_MAX = 1 << 20 };

struct escape {
    char control;  /* final byte of a control sequence (ESC [ ... X), 0 where it is none */
    char simple;   /* final byte of a sequence of two bytes (ESC X), 0 where it is none */
    bool private_; /* ESC [ ? ... */
    int count;     /* of parameters that were given */
    int parameters[ESCAPE_PARAMETERS];
};

/* data begins with ESC. Returns how many bytes belong to the sequence, at least 1. A string (title,
 * hyperlink, image) that does not end on its line is no string: then only what opens it is taken, so that no
 * text is swallowed. */
size_t escape_parse(const char *data, size_t length, struct escape *ret);
/* The parameter at an index; fallback where it is missing or 0. */
int escape_parameter(const struct escape *e, int at, int fallback);

#endif
