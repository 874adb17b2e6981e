/* Collects bubblewrap's arguments and descriptors. Does not know what they mean. */
#include "lib/driver/local/vector.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

void vector_clear(struct vector *v)
{
    buffer_free(&v->arguments);
    for (int i = 0; i < v->n_fds; i++)
        memory_close_fd(&v->fds[i]);
    v->n_fds = 0;
}

void vector_add(struct vector *v, ...)
{
    va_list list;
    va_start(list, v);
    for (const char *text; (text = va_arg(list, const char *));)
        buffer_append(&v->arguments, text, strlen(text) + 1);
    va_end(list);
}

void vector_add_printf(struct vector *v, const char *format, ...)
{
    char *text = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0)
        abort();
    va_end(list);
    vector_add(v, text, NULL);
    free(text);
}

int vector_add_fd(struct vector *v, int fd)
{
    if (v->n_fds == VECTOR_FDS_MAX) {
        close(fd);
        return -1;
    }
    v->fds[v->n_fds] = fd;
    return v->n_fds++;
}

static int add_file(struct vector *v, int fd, const char *mode, const char *path, struct error *err)
{
    int number = vector_add_fd(v, fd);
    if (number < 0)
        return error_set(err, ERROR_DRIVER, "too many files for a sandbox");
    vector_add(v, "--perms", mode, "--file", NULL);
    vector_add_printf(v, "%d", number);
    vector_add(v, path, NULL);
    return 0;
}

int vector_add_file(struct vector *v, int fd, const char *path, struct error *err)
{
    return add_file(v, fd, "0444", path, err);
}

static int add_text(struct vector *v, const char *text, const char *mode, const char *path, struct error *err)
{
    int fd = vector_memfd(text, strlen(text));
    if (fd < 0)
        return error_errno(err, ERROR_DRIVER, errno, "cannot make a file for a sandbox");
    return add_file(v, fd, mode, path, err);
}

int vector_add_text(struct vector *v, const char *text, const char *path, struct error *err)
{
    return add_text(v, text, "0444", path, err);
}

int vector_add_program(struct vector *v, const char *text, const char *path, struct error *err)
{
    return add_text(v, text, "0555", path, err);
}

int vector_seal(struct vector *v, int number, struct error *err)
{
    int fd = vector_memfd(v->arguments.data, v->arguments.length);
    if (fd < 0)
        return error_errno(err, ERROR_DRIVER, errno, "cannot hand over arguments");
    close(v->fds[number]);
    v->fds[number] = fd;
    return 0;
}

int vector_memfd(const void *data, size_t length)
{
    _cleanup_close_ int fd = memfd_create("sandbox", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    for (size_t done = 0; done < length;) {
        ssize_t n = write(fd, (const char *)data + done, length - done);
        if (n < 0)
            return -1;
        done += (size_t)n;
    }
    return lseek(fd, 0, SEEK_SET) < 0 ? -1 : STEAL_FD(fd);
}
