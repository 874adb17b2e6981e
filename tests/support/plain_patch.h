/* What patch(1) does with a unified diff of one file, without its second thoughts: every line must be as
 * told. */
#ifndef TESTS_PLAIN_PATCH_H
#define TESTS_PLAIN_PATCH_H

#include "lib/agent/edit/bytes.h"
#include "lib/base/buffer.h"

/* false = the diff is not one of old. An empty diff changes nothing. */
bool plain_patch(struct bytes old, struct bytes diff, struct buffer *ret);

#endif
