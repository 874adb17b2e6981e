/* Commands whose every byte is known beforehand: one row for each kind, made from a seed. */
#ifndef CHAOS_WORK_H
#define CHAOS_WORK_H

#include "lib/base/buffer.h"
#include "tests/chaos/chase.h"
#include "tests/chaos/ledger.h"

#include <jansson.h>

enum work_flag {
    WORK_INPUT = 1,  /* gets pieces, then eof */
    WORK_READY = 2,  /* says so before it may be given input or signals */
    WORK_CANCEL = 4, /* is ended by a signal that is asked for */
    WORK_TIMED = 8,  /* is ended by its timeout */
    WORK_LONG = 16,  /* writes more than its log may keep */
    WORK_LATE = 32,  /* goes on writing after its end, or, where nobody saw that at once, before it */
};
unsigned work_flags(int kind);
const char *work_name(int kind);
int work_choose(uint64_t *random);

json_t *work_body(int kind, uint64_t seed); /* of the request that starts it */
void work_piece(const struct entry *e, unsigned number, struct buffer *out);
unsigned work_pieces(const struct entry *e);
int work_signal(const struct entry *e); /* of WORK_CANCEL */
#define WORK_READY_TEXT "ready\n"

/* What it writes in all. seen: its stdout so far, for input of which it is not known whether it arrived. */
void work_expect(const struct entry *e, const struct buffer *seen, struct buffer *out, struct buffer *err,
                 struct buffer *late);
int work_code(const struct entry *e); /* its return code */

/* verdict.c: compares what was read of it with what it had to write. ended: c holds its whole log. false: why
 * says what is wrong. */
bool work_judge(const struct entry *e, const struct chase *c, bool ended, char *why, size_t size);

#endif
