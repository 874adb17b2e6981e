/* What operations on watches share: rows, and how one is found. */
#ifndef OP_WATCH_H
#define OP_WATCH_H

#include "lib/base/clock.h"
#include "lib/op/rows.h"
#include "lib/store/watches.h"

#define WATCH_KEEP_MS 65000 /* a little longer than the agent gives the walk through all folders */

#define ROW_WATCH_ID                                                                                         \
    {                                                                                                        \
        "watch_id", FIELD_STRING, .required = true, .format = &format_watch_id,                              \
                                  .text = "Id of the watch (fw-...), as its start answered."                 \
    }
#define RESULT_WATCH_ID        RESULT_TEXT("watch_id", "Id of the watch.")
#define RESULT_WATCH_PATH      RESULT_TEXT("path", "What is watched, links followed.")
#define RESULT_WATCH_RECURSIVE RESULT_BOOL("recursive", "With all folders below.")
#define RESULT_WATCH_TYPES                                                                                   \
    {                                                                                                        \
        "event_types", FIELD_ARRAY, .required = true, .items = &row_text_item,                               \
                                    .text = "What is told, beside overflow."                                 \
    }
#define RESULT_WATCH_RING                                                                                    \
    RESULT_INT("base_cursor", "The oldest event that is kept; the newest 2048 are."),                        \
        RESULT_INT("next_cursor", "The seq of the event that comes next."),                                  \
        RESULT_INT("dropped_events", "How many events were dropped in all.")
#define RESULT_WATCH_REASON                                                                                  \
    RESULT_TEXT0("reason", "Why it ended: watch_timeout, cancelled_by_client, watched_path_removed, "        \
                           "watched_path_moved, or lost: ..."),                                              \
        RESULT_TEXT0("error", "The reason again, where the state is failed.")

int watch_not_found(const char *watch_id, struct error *err); /* -1 */
struct events_reader *watch_reader(struct call *call, const char *watch_id,
                                   struct error *err); /* NULL: there is none, in err */

#endif
