/* The Authorization header, and what else of a request names somebody: a wrong token is never anybody. */
#include "fcgi/auth.h"
#include "fcgi/documents.h"
#include "fcgi/rest.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "tests/fuzz/input.h"

#include <fcntl.h>
#include <strings.h>

#define OWNERS "owners-token-0123456789"
#define OTHERS "others-token-0123456789"

static char directory[] = "/dev/shm/wsf-fuzz-XXXXXX";
static struct state *state;
static struct config config = { .token = (char *)OWNERS };

static void leave(void)
{
    state_close(state);
    io_remove_tree(AT_FDCWD, directory, NULL);
}

static void begin(void)
{
    char hash[ID_HASH_SIZE];
    log_init("fuzz", LOG_LEVEL_ERROR, "/dev/null");
    holds(mkdtemp(directory) != NULL && (state = state_open(directory, NULL)) != NULL);
    atexit(leave);
    id_hash(OTHERS, strlen(OTHERS), hash);
    json_auto_t *record = json_pack("{s:i, s:s, s:s, s:[s], s:s, s:s}", "v", 1, "id", "tk-1", "principal",
                                    "other", "scopes", "read", "created_at", "now", "hash", hash);
    holds(state_add_token(state, hash, record, NULL) == 0);
}

static void check(const char *text)
{
    struct principal principal = { 0 };
    _cleanup_error_ struct error err = ERROR_INIT;
    bool scheme = strncasecmp(text, "Bearer ", 7) == 0;
    int rc = auth_check(&config, state, text, &principal, &err);
    bool owner = scheme && strcmp(text + 7, OWNERS) == 0, other = scheme && strcmp(text + 7, OTHERS) == 0;
    holds((rc == 0) == (owner || other));
    holds(rc < 0 || principal.admin == owner);
    holds(rc == 0 || (err.code == ERROR_UNAUTHORIZED && auth_challenge(text, &err) != NULL));
    principal_clear(&principal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (state == NULL)
        begin();
    if (size > 10000)
        return 0;
    char *text = xstrndup((const char *)data, size);
    check(text);
    if (documents_host_is_loopback(text))
        holds(strncasecmp(text, "localhost", 9) == 0 || strncmp(text, "127.", 4) == 0 || text[0] == '[' ||
              strncmp(text, "::1", 3) == 0);
    if (rest_key_is_valid(text))
        holds(strpbrk(text, " \r\n\t") == NULL && strlen(text) <= 255);
    for (int kind = ID_WORKSPACE; kind <= ID_SANDBOX; kind++)
        holds(!id_is_valid((enum id_kind)kind, text) || strlen(text) == ID_SIZE - 1);
    free(text);
    return 0;
}
