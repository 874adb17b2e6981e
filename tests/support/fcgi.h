/* A FastCGI client for tests: builds the bytes that a web server would send and takes answers apart.
 * Blocking, with deadlines. */
#ifndef TESTS_SUPPORT_FCGI_H
#define TESTS_SUPPORT_FCGI_H

#include "lib/base/buffer.h"

#include <stdbool.h>

struct fcgi_answer {
    struct buffer text; /* all of FCGI_STDOUT */
    int status;         /* of the Status line; 0 = none */
    const char *body;   /* in text; NULL = no header block */
    size_t body_length;
    bool ended; /* FCGI_END_REQUEST came */
    int protocol_status;
    int last_type; /* of the last record read */
};
void fcgi_answer_free(struct fcgi_answer *a);

int fcgi_connect(const char *path); /* blocking socket, 10 s timeouts */
void fcgi_add_record(struct buffer *out, int type, int id, const void *data, size_t length, int padding);
void fcgi_add_begin(struct buffer *out, int id, int role, bool keep);
/* pairs: name, value, ..., NULL; REQUEST_METHOD and REQUEST_URI come first. */
void fcgi_add_params(struct buffer *out, int id, const char *method, const char *uri,
                     const char *const *pairs);
void fcgi_add_stdin(struct buffer *out, int id, const void *data, size_t length); /* with its end */
/* The whole request. */
void fcgi_add_request(struct buffer *out, int id, bool keep, const char *method, const char *uri,
                      const void *body, size_t length);
bool fcgi_send(int fd, const void *data, size_t length);
/* Until FCGI_END_REQUEST of id; false = the connection ended or 10 s without a byte. */
bool fcgi_read(int fd, int id, struct fcgi_answer *ret);

#endif
