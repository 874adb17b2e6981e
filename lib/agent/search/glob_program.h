/* What a set of patterns is inside: steps. Of the two files of glob alone. */
#ifndef SEARCH_GLOB_PROGRAM_H
#define SEARCH_GLOB_PROGRAM_H

#include "lib/agent/search/glob.h"

enum step_kind {
    STEP_CHARACTER, /* a: it */
    STEP_ANY,       /* but '/' */
    STEP_ALL,
    STEP_IN, /* ranges from a to before b, and no '/' */
    STEP_NOT_IN,
    STEP_SPLIT, /* goes on at a and at b, without a character */
    STEP_JUMP,  /* at a */
    STEP_END,   /* all of it matched */
};
struct step {
    enum step_kind kind;
    uint32_t a, b;
};
struct range {
    uint32_t low, high;
};

struct glob {
    enum glob_use use;
    struct step *steps; /* each that takes a character goes on with the one behind it */
    size_t count, capacity;
    struct range *ranges;
    size_t n_ranges;
    uint32_t *starts; /* of each pattern */
    size_t n_starts;
    /* of a simulation: which steps this round has seen, which are still to be looked at */
    uint32_t *seen, *stack, round;
    size_t seen_size;
    struct glob_place now, next;
};

/* One character, or one byte that is no part of any; returns its length. */
size_t glob_character(const char *text, size_t length, uint32_t *ret);

#endif
