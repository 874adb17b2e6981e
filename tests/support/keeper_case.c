/* Owns the live workspace of a test on the keeper. */
#include "tests/support/keeper_case.h"

#include "lib/base/clock.h"
#include "lib/base/memory.h"

#include <check.h>
#include <unistd.h>

struct live live;

struct talk *live_connect(const char *id)
{
    _cleanup_free_ char *leaf = xasprintf("%s.sock", id);
    return talk_open(&live.house, leaf);
}

static void keep(json_t *spec)
{
    live.keeper = house_keep(&live.house, live.ws, spec);
    _cleanup_free_ char *text = json_dumps(live.keeper.answer, 0);
    ck_assert_msg(json_object_get(live.keeper.answer, "ret") != NULL, "%s", text);
    live.talk = live_connect(live.ws);
    ck_assert_ptr_nonnull(live.talk);
}

void live_begin(json_t *spec, const char *const *settings)
{
    house_open(&live.house, NULL, settings);
    live.ws[0] = '\0';
    json_t *record = house_record(live.ws, spec);
    keep(record);
}

static void part(void)
{
    talk_close(live.talk);
    json_decref(live.keeper.answer);
}

void live_keep_again(void)
{
    part();
    keep(NULL);
}

void live_end(void)
{
    part();
    house_close(&live.house);
}

void live_run(const char *command, json_t *extra, struct told *told)
{
    char id[ID_SIZE];
    talk_start(live.talk, command, extra, id);
    ck_assert_msg(told_wait(&live.house, live.ws, id, told, 30000), "%s: no final event", command);
    ck_assert(!told->gap);
    ck_assert_uint_eq(told->exits, 1);
}

void live_wait_output(const char *id, struct told *told)
{
    int64_t deadline = clock_boottime_ms() + 5000;
    do {
        usleep(2000);
        told_read(&live.house, live.ws, id, told);
    } while (told->out.length == 0 && clock_boottime_ms() < deadline);
    ck_assert_msg(told->out.length > 0, "nothing was written");
}

json_t *live_request(const char *operation, json_t *in)
{
    return json_pack("{s:s, s:o, s:s, s:s}", "operation", operation, "in", in, "principal", "owner",
                     "request_id", "r");
}

bool live_is_pruned(const char *exec_id)
{
    struct exec_head head;
    _cleanup_error_ struct error err = ERROR_INIT;
    struct events_reader *reader = events_cache_get(live.house.events, live.ws, &err);
    ck_assert_msg(reader != NULL, "%s", err.message);
    return events_get_exec(reader, exec_id, &head, &err) < 0 && err.code == ERROR_NOT_FOUND;
}
