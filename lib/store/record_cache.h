/* Parsed records by key, good as long as their text is the same: a record that is read a thousand times a
 * second is parsed once. For lib/store alone. Not thread-safe: the owner's lock is held. */
#ifndef STORE_RECORD_CACHE_H
#define STORE_RECORD_CACHE_H

#include <jansson.h>

struct record_cache;
struct record_cache *record_cache_new(void);
void record_cache_free(struct record_cache *c);
/* A new reference of what text says, shared with others: it must not be changed. NULL: text is no JSON. */
json_t *record_cache_parse(struct record_cache *c, const char *key, const void *text, size_t length);

#endif
