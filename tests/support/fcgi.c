/* The test client's half of FastCGI 1.0, written on its own, so that an error in the codec under test is not
 * made twice. */
#include "tests/support/fcgi.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

void fcgi_answer_free(struct fcgi_answer *a)
{
    buffer_free(&a->text);
    *a = (struct fcgi_answer){ .text = BUFFER_INIT };
}

int fcgi_connect(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct timeval limit = { .tv_sec = 10 };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

void fcgi_add_record(struct buffer *out, int type, int id, const void *data, size_t length, int padding)
{
    static const char zeros[255];
    const unsigned char header[8] = { 1,
                                      (unsigned char)type,
                                      (unsigned char)(id >> 8),
                                      (unsigned char)id,
                                      (unsigned char)(length >> 8),
                                      (unsigned char)length,
                                      (unsigned char)padding,
                                      0 };

    buffer_append(out, header, sizeof(header));
    if (length > 0)
        buffer_append(out, data, length);
    buffer_append(out, zeros, (size_t)padding);
}

void fcgi_add_begin(struct buffer *out, int id, int role, bool keep)
{
    const unsigned char body[8] = { 0, (unsigned char)role, keep };

    fcgi_add_record(out, 1, id, body, sizeof(body), 0);
}

static void add_pair(struct buffer *out, const char *name, const char *value)
{
    const char *const both[] = { name, value };

    for (int i = 0; i < 2; i++) {
        size_t length = strlen(both[i]);
        const unsigned char bytes[4] = { (unsigned char)(length >> 24 | 0x80), (unsigned char)(length >> 16),
                                         (unsigned char)(length >> 8), (unsigned char)length };
        if (length < 128)
            buffer_append(out, bytes + 3, 1);
        else
            buffer_append(out, bytes, 4);
    }
    buffer_append_text(out, name);
    buffer_append_text(out, value);
}

void fcgi_add_params(struct buffer *out, int id, const char *method, const char *uri,
                     const char *const *pairs)
{
    _cleanup_buffer_ struct buffer params = BUFFER_INIT;

    add_pair(&params, "REQUEST_METHOD", method);
    add_pair(&params, "REQUEST_URI", uri);
    for (; pairs != NULL && *pairs != NULL; pairs += 2)
        add_pair(&params, pairs[0], pairs[1]);
    for (size_t at = 0; at < params.length; at += 65535)
        fcgi_add_record(out, 4, id, params.data + at, params.length - at < 65535 ? params.length - at : 65535,
                        0);
    fcgi_add_record(out, 4, id, NULL, 0, 0);
}

void fcgi_add_stdin(struct buffer *out, int id, const void *data, size_t length)
{
    const char *bytes = data;

    for (size_t at = 0; at < length; at += 65535)
        fcgi_add_record(out, 5, id, bytes + at, length - at < 65535 ? length - at : 65535, (int)(at % 8));
    fcgi_add_record(out, 5, id, NULL, 0, 0);
}

void fcgi_add_request(struct buffer *out, int id, bool keep, const char *method, const char *uri,
                      const void *body, size_t length)
{
    char text[24];
    const char *const pairs[] = { "CONTENT_LENGTH", text, "HTTP_AUTHORIZATION", "Bearer x", NULL };

    snprintf(text, sizeof(text), "%zu", length);
    fcgi_add_begin(out, id, 1, keep);
    fcgi_add_params(out, id, method, uri, pairs);
    fcgi_add_stdin(out, id, body, length);
}

bool fcgi_send(int fd, const void *data, size_t length)
{
    const char *bytes = data;

    while (length > 0) {
        ssize_t n = send(fd, bytes, length, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        length -= (size_t)n;
    }
    return true;
}

static bool read_exactly(int fd, void *to, size_t length)
{
    char *bytes = to;

    while (length > 0) {
        ssize_t n = recv(fd, bytes, length, 0);
        if (n <= 0)
            return false;
        bytes += n;
        length -= (size_t)n;
    }
    return true;
}

static void parse(struct fcgi_answer *a)
{
    const char *text = buffer_text(&a->text), *end = strstr(text, "\r\n\r\n");

    if (strncmp(text, "Status: ", 8) == 0)
        a->status = atoi(text + 8);
    if (end == NULL)
        return;
    a->body = end + 4;
    a->body_length = a->text.length - (size_t)(a->body - text);
}

bool fcgi_read(int fd, int id, struct fcgi_answer *ret)
{
    unsigned char header[8];
    char content[65535 + 255] = "";

    *ret = (struct fcgi_answer){ .text = BUFFER_INIT };
    while (!ret->ended) {
        if (!read_exactly(fd, header, 8))
            break;
        size_t length = (size_t)(header[4] << 8 | header[5]);
        if (header[0] != 1 || !read_exactly(fd, content, length + header[6]))
            break;
        ret->last_type = header[1];
        if ((header[2] << 8 | header[3]) != id)
            continue;
        if (header[1] == 6)
            buffer_append(&ret->text, content, length);
        if (header[1] == 3) {
            ret->ended = true;
            ret->protocol_status = content[4];
        }
    }
    parse(ret);
    return ret->ended;
}
