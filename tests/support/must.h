/* A demand that ends the process with a message: for support code, which also runs where no Check test does
 * (starting an installation, benchmarks). In a forked test it shows as an early exit, with the message above
 * it. */
#ifndef TESTS_MUST_H
#define TESTS_MUST_H

#include <stdio.h>
#include <stdlib.h>

#define must(condition, ...)                                                                                 \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                  \
            fprintf(stderr, __VA_ARGS__);                                                                    \
            fputc('\n', stderr);                                                                             \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define must_hold(condition) must(condition, "%s", #condition)

#endif
