/* Records of execs and of watches, as readers find and list them. A head is a struct exec_head or a struct
 * watch_head, as the kind says. For lib/store alone. */
#ifndef STORE_EVENTS_RECORDS_H
#define STORE_EVENTS_RECORDS_H

#include "lib/store/events_internal.h"

enum record_kind { RECORD_EXEC, RECORD_WATCH };

/* Within a body of reader_run. ERROR_NOT_FOUND. */
int record_find(struct events_reader *r, enum record_kind kind, const char *id, void *ret_head,
                struct error *err);

/* Each a read of its own. */
int record_get(struct events_reader *r, enum record_kind kind, const char *id, void *ret_head,
               struct error *err);
int record_get_info(struct events_reader *r, enum record_kind kind, const char *id, json_t **ret,
                    struct error *err);
/* Newest first, streams below `before` (0 = from the newest); returns how many, or -1. */
long record_list(struct events_reader *r, enum record_kind kind, uint32_t before, void *ret_heads,
                 size_t limit, struct error *err);

#endif
