/* Arguments for bubblewrap (NUL-separated, handed over by --args) and the descriptors that they name. */
#ifndef DRIVER_LOCAL_VECTOR_H
#define DRIVER_LOCAL_VECTOR_H

#include "lib/base/buffer.h"
#include "lib/base/error.h"
#include "lib/driver/local/spawn.h"

#define VECTOR_FDS_MAX SPAWN_FDS_MAX

/* fds[i] becomes descriptor i of bubblewrap; all are owned and close-on-exec here. */
struct vector {
    struct buffer arguments;
    int fds[VECTOR_FDS_MAX];
    int n_fds;
};
#define _cleanup_vector_ __attribute__((cleanup(vector_clear)))

void vector_clear(struct vector *v);
/* Appends the arguments up to NULL. */
void vector_add(struct vector *v, ...) __attribute__((sentinel));
void vector_add_printf(struct vector *v, const char *format, ...) PRINTF_LIKE(2, 3); /* one argument */
/* Takes fd (closed where there is no room); returns its number inside, -1 = no room. */
int vector_add_fd(struct vector *v, int fd);
/* A read-only file at path inside, copied from fd, which is taken. */
int vector_add_file(struct vector *v, int fd, const char *path, struct error *err);
/* The same, executable. */
int vector_add_program(struct vector *v, const char *text, const char *path, struct error *err);
int vector_add_text(struct vector *v, const char *text, const char *path, struct error *err);
/* The arguments so far become descriptor number of the program, in the place of what stands there. */
int vector_seal(struct vector *v, int number, struct error *err);
/* A memfd with these bytes, read from its start; -1 and errno. */
int vector_memfd(const void *data, size_t length);

#endif
