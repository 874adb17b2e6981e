/* search_and_replace on bytes: a list of edits, each on the result of the one before, all or nothing.
 *
 * old is looked for as it is, then by whole lines that are the same but for white space at their ends, then
 * but for white space between their words too; the first way that finds anything counts, and must find it
 * once, unless occurrence or replace_all says otherwise. Line ends in old and new are line ends of any kind:
 * what is inserted gets those of the place. new is taken literally. Outside of the spans that are told, not
 * one byte changes. */
#ifndef EDIT_EDIT_H
#define EDIT_EDIT_H

#include "lib/agent/edit/bytes.h"
#include "lib/agent/edit/changes.h"
#include "lib/base/buffer.h"
#include "lib/base/error.h"

struct edit {
    struct bytes old; /* empty: the file is empty (a byte order mark is nothing), new is its content */
    struct bytes new; /* empty: deletion; that of a whole line takes its end along */
    bool replace_all;
    size_t occurrence; /* from 1; 0 = old must be unique */
};

struct edit_result {
    struct buffer bytes;
    size_t exact, fuzzy; /* edits */
    size_t replaced;     /* places */
    /* Offsets into the original and into bytes; sorted. Few unchanged bytes may lie within one. */
    struct edit_span *spans;
    size_t span_count;
};
#define EDIT_RESULT_INIT                                                                                     \
    {                                                                                                        \
        BUFFER_INIT, 0, 0, 0, NULL, 0                                                                        \
    }
#define _cleanup_edit_result_ __attribute__((cleanup(edit_result_clear)))

void edit_result_clear(struct edit_result *result);
/* limit bounds the result's size (ERROR_TOO_LARGE); ret is untouched on failure. */
int edit_apply(struct bytes original, const struct edit *edits, size_t count, size_t limit,
               struct edit_result *ret, struct error *err);

#endif
