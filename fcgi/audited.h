/* What requests leave in the audit log: a line for each call, for each that was refused before it became one,
 * and, so many a minute at most, for those whose bearer token is not known. */
#ifndef FCGI_AUDITED_H
#define FCGI_AUDITED_H

#include "fcgi/dispatch.h"

/* name: the subcommand that lines are from. */
void audited_setup(const char *name, const struct config *config);

/* The part of a call's line that only its beginning knows; NULL: such calls are not told. Caller frees. */
char *audited_begin(const struct op *op, const json_t *in, const char *peer);
/* status 499: the client went away. err: NULL = none. */
void audited_call(const struct flight *f, int status, const struct error *err);
/* A call that its parameters kept from beginning. x: NULL = none carried it. */
void audited_refusal(const struct op *op, const struct principal *principal, enum call_form form,
                     const json_t *in, const struct exchange *x, const struct error *err);
/* Who has no valid token. */
void audited_stranger(const struct exchange *x, const struct error *err);

#endif
