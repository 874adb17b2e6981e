/* Timed requests of one client. Knows no figure to reach. */
#include "tests/bench/measure.h"

#include "tests/support/must.h"

#include <string.h>

struct answer measure_events(const struct instance *i, const char *ws, const char *ex, const char *query)
{
    char path[300];
    struct http_options quick = { .unchecked = true };
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events?%s", ws, ex, query);
    struct answer a = http_send(i, "GET", path, &quick);
    must(a.status == 200, "%ld %.200s", a.status, a.body);
    return a;
}

void measure_cancel(const struct instance *i, const char *ws, const char *ex)
{
    char path[200];
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/cancel", ws, ex);
    json_decref(api(i, 200, "POST", path, make_json("{s:s}", "signal_name", "KILL")));
}

static void wait_first_stdout(const struct instance *i, const char *ws, const char *ex)
{
    for (long cursor = 0;;) {
        char query[80];
        snprintf(query, sizeof query, "cursor=%ld&wait_seconds=10", cursor);
        struct answer a = measure_events(i, ws, ex, query);
        bool found = strstr(a.body, "\"stdout\"") != NULL;
        cursor = (long)member_number(a.json, "next_cursor");
        answer_clear(&a);
        if (found)
            return;
    }
}

double measure_create(const struct instance *i, char ws[static 40], double *ret_created)
{
    char ex[40];
    double started = now_us();
    workspace_create(i, NULL, ws);
    if (ret_created)
        *ret_created = (now_us() - started) / 1000;
    exec_start_command(i, ws, "echo hi", ex);
    wait_first_stdout(i, ws, ex);
    return (now_us() - started) / 1000;
}

double measure_start(const struct instance *i, const char *ws)
{
    char ex[40];
    double started = now_us();
    exec_start_command(i, ws, "echo hi", ex);
    wait_first_stdout(i, ws, ex);
    return (now_us() - started) / 1000;
}

double measure_stamp_in(const char *text)
{
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, "stamp ")); at++)
        last = at;
    return last ? strtod(last + 6, NULL) / 1000 : 0;
}

void measure_wake(const struct instance *i, const char *ws, int count, const char *pause, struct samples *ret)
{
    char command[300], ex[40];
    snprintf(command, sizeof command, MEASURE_STAMPS, count, pause);
    exec_start_command(i, ws, command, ex);
    long cursor = 0;
    for (bool ended = false; !ended;) {
        char query[80];
        snprintf(query, sizeof query, "cursor=%ld&wait_seconds=10", cursor);
        struct answer a = measure_events(i, ws, ex, query);
        double stamp = measure_stamp_in(a.body);
        if (stamp > 0)
            samples_add(ret, (now_us() - stamp) / 1000);
        cursor = (long)member_number(a.json, "next_cursor");
        ended = strstr(a.body, "\"exit\"") != NULL;
        answer_clear(&a);
    }
}

double measure_status(const struct instance *i, const char *ws, const char *ex)
{
    char path[200];
    struct http_options quick = { .unchecked = true };
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s", ws, ex);
    double started = now_us();
    struct answer a = http_send(i, "GET", path, &quick);
    must(a.status == 200, "%ld %.200s", a.status, a.body);
    answer_clear(&a);
    return (now_us() - started) / 1000;
}
