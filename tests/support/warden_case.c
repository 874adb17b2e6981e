/* Owns a test's talk with a real warden, and with the keepers that it starts. Knows no rule of either. */
#include "tests/support/warden_case.h"

#include "lib/base/clock.h"
#include "lib/base/process.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>

struct house desk_house;
pid_t desk_warden;
struct talk *desk;

void desk_begin(const char *const *settings)
{
    house_open(&desk_house, NULL, settings);
    desk_begin_again();
}

void desk_begin_again(void)
{
    desk_warden = house_start_warden(&desk_house);
    desk = talk_open(&desk_house, "warden.sock");
    ck_assert_ptr_nonnull(desk);
}

void desk_kill(void)
{
    talk_close(desk);
    kill(desk_warden, SIGKILL);
    ck_assert_int_eq(house_wait(desk_warden, 5000), 128 + SIGKILL);
}

void desk_end(void)
{
    talk_close(desk);
    house_close(&desk_house);
}

json_t *desk_start_message(const char *id)
{
    return json_pack("{s:s, s:s}", "op", "start", "workspace_id", id);
}

json_t *desk_record(json_t *answer)
{
    json_t *record = json_object_get(json_object_get(answer, "ret"), "record");
    _cleanup_free_ char *text = json_dumps(answer, 0);
    ck_assert_msg(record != NULL, "%s", text);
    return record;
}

void desk_create(char id[static ID_SIZE])
{
    id[0] = '\0';
    json_t *record = house_record(id, NULL);
    json_auto_t *answer = talk_ask(desk, json_pack("{s:s, s:o}", "op", "create", "record", record));
    ck_assert_str_eq(json_string_value(json_object_get(desk_record(answer), "state")), "running");
}

void desk_start(const char *id)
{
    json_auto_t *answer = talk_ask(desk, desk_start_message(id));
    desk_record(answer);
}

struct talk *kept_connect(const char *id)
{
    _cleanup_free_ char *leaf = xasprintf("%s.sock", id);
    struct talk *t = talk_open(&desk_house, leaf);
    ck_assert_ptr_nonnull(t);
    return t;
}

char kept_exec_id[ID_SIZE];

void kept_run(const char *id, const char *command, struct told *told)
{
    struct talk *t = kept_connect(id);
    talk_start(t, command, NULL, kept_exec_id);
    ck_assert(told_wait(&desk_house, id, kept_exec_id, told, 20000));
    talk_close(t);
}

void kept_writes(const char *id, const char *command, const char *out)
{
    struct told told = { 0 };
    kept_run(id, command, &told);
    ck_assert_str_eq(buffer_text(&told.out), out);
    told_clear(&told);
}

void kept_stop(const char *id)
{
    struct talk *t = kept_connect(id);
    json_auto_t *answer = talk_call(t, "stop", NULL);
    ck_assert_int_eq(talk_error(answer), 0);
    talk_close(t);
}

int kept_keeper(const char *id)
{
    struct process_identity identity;
    json_auto_t *record = house_stored(&desk_house, id);
    ck_assert_int_eq(process_identity_from_json(json_object_get(record, "keeper"), &identity), 0);
    int pidfd = process_open(&identity);
    ck_assert_int_ge(pidfd, 0);
    return pidfd;
}

void kept_kill_keeper(const char *id)
{
    int pidfd = kept_keeper(id);
    process_pidfd_signal(pidfd, SIGKILL);
    ck_assert_int_eq(process_pidfd_wait(pidfd, 5000), 1);
    close(pidfd);
}

void kept_begin_exec(const char *id, char lost_id[static ID_SIZE])
{
    struct talk *t = kept_connect(id);
    struct told told = { 0 };
    talk_start(t, "echo kept >file; echo up; sleep 100", NULL, lost_id);
    int64_t deadline = clock_boottime_ms() + 5000;
    while (told_read(&desk_house, id, lost_id, &told), told.out.length == 0 && clock_boottime_ms() < deadline)
        usleep(2000);
    told_clear(&told);
    talk_close(t);
}
