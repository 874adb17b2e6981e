/* A whole installation for tests: `workspace-fcgi run` (warden, workers, lighttpd) in a folder of its own,
 * and a client for it. Every answer of an operation is checked against the result that the operation
 * declares; a mismatch fails the test. */
#ifndef TESTS_INSTANCE_H
#define TESTS_INSTANCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct instance;

struct instance_options {
    const char *const *environment; /* "NAME=VALUE", NULL-ended, may be NULL */
    bool unprivileged;              /* as www-data where the test is root */
    uid_t uid;                      /* 0; or that user instead of www-data, who need not have a name */
    const char *state_dir;          /* NULL = a new folder, removed at the end */
    const char *log_path;           /* NULL = test.log beside or in the state directory */
};
struct instance *instance_start(
    const struct instance_options *options); /* waits until /healthz answers; NULL options are fine */
void instance_stop(struct instance *i);      /* ends all, checks that nothing is left behind, frees */
const char *instance_url(const struct instance *i);
const char *instance_token(const struct instance *i);
const char *instance_state(const struct instance *i);
/* Path of a program of this build. */
const char *build_path(const char *program);

struct answer {
    long status;
    char *body, *headers;
    size_t length;
    json_t *json; /* NULL where the body is none */
    double ms;
};
void answer_clear(struct answer *a);
const char *answer_header(const struct answer *a, const char *name, char *value,
                          size_t size); /* NULL = absent */

struct http_options {
    const char *token;          /* NULL = the owner's; "" = no header */
    const char *const *headers; /* NULL-ended, may be NULL */
    const char *content_type;   /* NULL = application/json where there is a body */
    const char *body;
    size_t length;   /* 0 = strlen(body) */
    long timeout_ms; /* 0 = 40 s */
    bool unchecked;  /* not against the declared result */
};
/* path is below the root ("/healthz", "/api/workspaces"). */
struct answer http_send(const struct instance *i, const char *method, const char *path,
                        const struct http_options *options);
void http_thread_end(void); /* a thread that has sent something ends */
/* body is stolen, may be NULL. Fails the test where the status differs; the JSON is a new reference. */
json_t *api(const struct instance *i, long status, const char *method, const char *path, json_t *body);
json_t *api_as(const struct instance *i, const char *token, long status, const char *method, const char *path,
               json_t *body);
/* The answer's "error" of a request that must fail with this status and contain this text. */
void api_refused(const struct instance *i, long status, const char *contains, const char *method,
                 const char *path, json_t *body);

/* Workspaces and execs. Ids are kept in static storage of the caller's size (37 characters are enough). */
void workspace_create(const struct instance *i, json_t *body, char id[static 40]);
void workspace_terminate(const struct instance *i, const char *id);
void exec_start(const struct instance *i, const char *ws, json_t *body, char id[static 40]);
void exec_start_command(const struct instance *i, const char *ws, const char *command, char id[static 40]);

struct exec_log {
    char *out, *err, *late;
    size_t out_length, err_length, late_length;
    json_t *exit;  /* the exit event */
    json_t *error; /* the error event, if there was one */
    char state[16];
    long first_seq, last_seq, pages;
    bool replacement; /* some text event carried U+FFFD without data_base64 */
    long long dropped;
};
/* Follows the log by cursor until the final event (deadline in ms); checks that seqs are contiguous, that
 * pages hold their bound and that the state is terminal only with the final event. */
void exec_follow(const struct instance *i, const char *ws, const char *ex, long deadline_ms,
                 struct exec_log *ret);
void exec_log_clear(struct exec_log *log);
/* Starts, follows, returns. */
void exec_run(const struct instance *i, const char *ws, json_t *body, struct exec_log *ret);
void exec_run_command(const struct instance *i, const char *ws, const char *command, struct exec_log *ret);
void exec_send(const struct instance *i, const char *ws, const char *ex, const char *text, bool eof);
/* Polls until the output so far contains text; fails the test after deadline_ms. Returns the cursor. */
/* The cursor after all that is there now. */
long exec_end(const struct instance *i, const char *ws, const char *ex);
long exec_wait_output(const struct instance *i, const char *ws, const char *ex, const char *text,
                      long deadline_ms);

/* Processes of this instance whose command line has this as its subcommand ("serve", "warden", "keep",
 * "lighttpd" ...); returns how many. */
size_t instance_processes(const struct instance *i, const char *subcommand, pid_t *pids, size_t size);
/* Sends a signal to processes of this instance only (by pidfd, after checking the command line again). */
size_t instance_signal(const struct instance *i, const char *subcommand, int signal_number);

long long now_ms(void);
void sleep_ms(long ms);
json_t *make_json(const char *format, ...); /* json_pack that fails the test */
const char *member_text(const json_t *object, const char *name);
long long member_number(const json_t *object, const char *name);
bool member_flag(const json_t *object, const char *name);

#endif
