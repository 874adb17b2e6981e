/* Owns calling run_bash for tests. Every answer is held against its bound here. */
#include "tests/support/bash_case.h"

#include <stdio.h>
#include <string.h>

enum { ANSWER_MOST = 90000 };

json_t *bash_with(json_t *body)
{
    char *text = json_dumps(body, 0);
    struct http_options o = { .body = text, .timeout_ms = 100000 };
    struct answer a = http_send(the, "POST", ws_path("bash"), &o);
    ck_assert_msg(a.status == 200, "%ld %.300s", a.status, a.body);
    ck_assert_uint_le(a.length, ANSWER_MOST);
    json_t *result = json_incref(a.json);
    answer_clear(&a);
    free(text);
    json_decref(body);
    return result;
}

json_t *bash(const char *command)
{
    return bash_with(make_json("{s:s}", "command", command));
}

void bash_log(const json_t *result, struct exec_log *ret)
{
    exec_follow(the, ws, member_text(result, "exec_id"), 30000, ret);
}

void bash_upload(const char *path, const char *data, size_t length)
{
    char rest[300];
    snprintf(rest, sizeof rest, "raw?path=%s", path);
    struct http_options o = {
        .body = data, .length = length, .content_type = "application/octet-stream", .unchecked = true
    };
    struct answer a = http_send(the, "PUT", ws_path(rest), &o);
    ck_assert_msg(a.status == 200, "%ld %.300s", a.status, a.body);
    answer_clear(&a);
}
