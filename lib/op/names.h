/* Names of operations in texts. A text says {{createRemoteWorkspace}} where it means that operation; each
 * document writes its own name there: the operationId, or the tool. What stands in [[ ]] is left out of a
 * document that has not all operations named in it; {{tools}} names nothing, and only tools and terminals
 * have it. */
#ifndef OP_NAMES_H
#define OP_NAMES_H

#include "lib/op/op.h"

enum document { DOCUMENT_TOOLS, DOCUMENT_FULL, DOCUMENT_ACTIONS, DOCUMENT_CALL /* a terminal */ };

/* NULL = the document has not this operation. */
const char *document_name(enum document document, const struct op *op);
/* text for people, with this document's names; the caller frees. */
char *names_text(const char *text, enum document document);
/* In every string of value that is a description or a summary. */
void names_fill(json_t *value, enum document document);

#endif
