/* Allocation that dies when memory is out, cleanup attributes, ownership transfer.
 * Every x* function returns non-NULL; a size that overflows aborts. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_ELEMENTS(array)      (sizeof(array) / sizeof((array)[0]))
#define PRINTF_LIKE(at, first) __attribute__((format(printf, at, first)))

/* Hands the value out and leaves an empty variable behind. */
#define STEAL(pointer)                                                                                       \
    ({                                                                                                       \
        __typeof__(pointer) stolen_ = (pointer);                                                             \
        (pointer) = NULL;                                                                                    \
        stolen_;                                                                                             \
    })
#define STEAL_FD(fd)                                                                                         \
    ({                                                                                                       \
        int stolen_ = (fd);                                                                                  \
        (fd) = -1;                                                                                           \
        stolen_;                                                                                             \
    })

static inline void memory_free_pointer(void *pointer)
{
    free(*(void **)pointer);
}
/* Leaves -1 behind: a number that was closed soon means another file. */
static inline void memory_close_fd(int *fd)
{
    if (*fd >= 0)
        close(STEAL_FD(*fd));
}
#define _cleanup_free_  __attribute__((cleanup(memory_free_pointer)))
#define _cleanup_close_ __attribute__((cleanup(memory_close_fd)))

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xreallocarray(void *old, size_t count, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t length);
void *xmemdup(const void *data, size_t length);
char *xasprintf(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
