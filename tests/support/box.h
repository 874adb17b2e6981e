/* One sandbox of a driver under test, spoken to by frames as a keeper does. */
#ifndef TESTS_BOX_H
#define TESTS_BOX_H

#include "lib/base/buffer.h"
#include "lib/base/ids.h"
#include "lib/driver/driver.h"
#include "lib/wire/channel.h"

/* A driver and whom it runs as. */
struct box_kind {
    const char *name;
    const struct driver *driver;
    uid_t as;      /* the test's process becomes this user; 0 = stays root */
    bool isolated; /* what the sandbox is promised to be */
};
extern const struct box_kind box_kinds[];
#define BOX_KINDS 3
#define BOX_LOCAL 2 /* box_kinds[0..BOX_LOCAL-1] are local */

struct box {
    const struct box_kind *kind;
    struct config config;
    struct sandbox_spec spec;
    char id[ID_SIZE];
    struct sandbox *sandbox;
    json_t *handle;
    struct channel *channel;
    uint32_t last_stream;
};

/* Becomes the kind's user and makes a state directory (config.state_dir, 0700); false = not possible here
 * (not root). */
bool box_prepare(struct box *b, const struct box_kind *kind);
void box_make_folders(struct box *b, uid_t uid); /* a new id, its folders, spec filled with defaults */
void box_start(struct box *b);                   /* create, open_channel, HELLO; fails the test */
void box_leave(struct box *b); /* terminate and release one that shares another's state directory */
void box_end(struct box *b);   /* terminate, release, folders removed */

struct box_result {
    struct buffer out, err;
    int status; /* of wait(2); -1 = failed to start */
};
/* Runs bash -lc and reads all. timeout_ms bounds it: then the test fails. Enforces meanwhile. */
void box_run(struct box *b, const char *command, bool pty, int timeout_ms, struct box_result *ret);
void box_result_clear(struct box_result *r);
/* Runs and returns the output (static); fails the test on a status other than 0. */
const char *box_output(struct box *b, const char *command);
bool box_succeeds(struct box *b, const char *command);
/* A call on files (request is stolen, input may be NULL): its reply, a new reference; out (may be NULL) gets
 * what it wrote. */
json_t *box_file(struct box *b, json_t *request, const char *input, struct buffer *out);

#endif
