/* JSON bodies of requests. A small one is parsed where it stands, a big one in the loop's helper thread, so
 * that nobody waits for it. */
#include "fcgi/body.h"

#include "lib/schema/field.h"

#include <strings.h>

#define INLINE_MAX (64u << 10)

struct parse {
    struct exchange *exchange; /* NULL: the client went away */
    struct buffer text;
    json_t *value;
    struct error error;
    body_take *take;
    void *user;
};

static void work(void *user)
{
    struct parse *p = user;
    p->value = field_parse_json(p->text.data ? p->text.data : "", p->text.length, &p->error);
}

static void done(void *user)
{
    struct parse *p = user;
    if (p->exchange) {
        p->exchange->on_gone = NULL;
        p->exchange->user = NULL;
    }
    buffer_free(&p->text);
    p->take(p->user, p->exchange, p->value, p->value ? NULL : &p->error);
    error_clear(&p->error);
    free(p);
}

static void gone(struct exchange *x, void *user)
{
    (void)x;
    struct parse *p = user;
    p->exchange = NULL;
}

void body_parse(struct loop *l, struct exchange *x, body_take *take, void *user)
{
    struct parse *p = xcalloc(1, sizeof(*p));
    p->exchange = x;
    p->take = take;
    p->user = user;
    p->text = x->request->body;
    x->request->body = (struct buffer)BUFFER_INIT;
    x->user = p;
    x->on_gone = gone;
    if (p->text.length > INLINE_MAX) {
        loop_offload(l, work, done, p);
        return;
    }
    work(p);
    done(p);
}

bool body_is_json(const struct request *r)
{
    static const char name[] = "application/json";
    if (strncasecmp(r->content_type, name, sizeof(name) - 1) != 0)
        return false;
    return strchr("; \t", r->content_type[sizeof(name) - 1]) != NULL;
}
