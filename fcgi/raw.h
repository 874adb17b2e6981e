/* Bytes of files between a client and a keeper (OP_RAW): pieces of an answer as fast as the client takes
 * them, of a request's body as fast as the keeper does. */
#ifndef FCGI_RAW_H
#define FCGI_RAW_H

#include "fcgi/dispatch.h"

extern const struct keeper_transfer raw_transfer;
void raw_begin(struct flight *f);                                            /* it was asked for */
void raw_answer(void *user, const json_t *ret, const struct error *err);     /* keeper_answer */
void raw_take(struct flight *f, const char *data, size_t length, bool last); /* of the request's body */
void raw_drained(struct flight *f);
void raw_forget(struct flight *f);
/* The status of a download and its header lines, from the agent's reply. */
int raw_headers(const json_t *head, struct buffer *out);
/* What goes with an error of this call, as header lines. */
void raw_error_headers(const struct flight *f, const struct error *err, struct buffer *out);

#endif
