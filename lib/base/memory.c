/* Owns: allocation. Out of memory ends the process, so that no caller has a path for it that nobody tests.
 * It must not know: anything else; not even the log, which allocates through it. */
#include "lib/base/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

static _Noreturn void memory_die(void)
{
    static const char text[] = "out of memory\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)ignored;
    abort();
}

void *xmalloc(size_t size)
{
    void *data = malloc(size > 0 ? size : 1);
    if (data == NULL)
        memory_die();
    return data;
}

void *xcalloc(size_t count, size_t size)
{
    void *data = calloc(count > 0 ? count : 1, size > 0 ? size : 1);
    if (data == NULL)
        memory_die();
    return data;
}

void *xreallocarray(void *old, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        memory_die();
    void *data = realloc(old, total > 0 ? total : 1);
    if (data == NULL)
        memory_die();
    return data;
}

char *xstrdup(const char *text)
{
    return xmemdup(text, strlen(text) + 1);
}

char *xstrndup(const char *text, size_t length)
{
    size_t used = strnlen(text, length);
    char *copy = xmalloc(used + 1);
    memcpy(copy, text, used);
    copy[used] = '\0';
    return copy;
}

void *xmemdup(const void *data, size_t length)
{
    void *copy = xmalloc(length);
    if (length > 0)
        memcpy(copy, data, length);
    return copy;
}

char *xasprintf(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        memory_die();
    return text;
}
