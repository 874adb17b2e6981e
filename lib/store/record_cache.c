/* A small direct-mapped cache of parsed JSON, checked byte by byte against the text that it stands for. Knows
 * nothing of what records mean. */
#include "lib/store/record_cache.h"

#include "lib/base/fnv.h"
#include "lib/base/memory.h"

#define SLOTS    128
#define TEXT_MAX 16384

struct slot {
    char *key;
    char *text;
    size_t length;
    json_t *value;
};
struct record_cache {
    struct slot slots[SLOTS];
};

struct record_cache *record_cache_new(void)
{
    return xcalloc(1, sizeof(struct record_cache));
}

static void slot_clear(struct slot *s)
{
    free(s->key);
    free(s->text);
    json_decref(s->value);
    *s = (struct slot){ 0 };
}

void record_cache_free(struct record_cache *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        slot_clear(&c->slots[i]);
    free(c);
}

static struct slot *slot_of(struct record_cache *c, const char *key)
{
    return &c->slots[fnv_mix(FNV_BEGIN, key, strlen(key)) % SLOTS];
}

json_t *record_cache_parse(struct record_cache *c, const char *key, const void *text, size_t length)
{
    struct slot *s = slot_of(c, key);
    if (s->key && s->length == length && strcmp(s->key, key) == 0 && memcmp(s->text, text, length) == 0)
        return json_incref(s->value);
    json_t *value = json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!value || length > TEXT_MAX)
        return value;
    slot_clear(s);
    *s = (struct slot){ xstrdup(key), xmemdup(text, length), length, json_incref(value) };
    return value;
}
