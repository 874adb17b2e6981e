/* Values of the stores and what crosses processes as JSON. The first byte says what the rest is; a value that
 * begins with a checksum gets the right one where its highest bit is set, so that what lies behind is met
 * too. */
#include "lib/base/buffer.h"
#include "lib/base/process.h"
#include "lib/driver/driver.h"
#include "lib/op/workspace_view.h"
#include "lib/schema/field.h"
#include "lib/store/events_format.h"
#include "lib/store/watches.h"
#include "tests/fuzz/input.h"

static void check_event(const char *data, size_t size)
{
    struct event event;
    unsigned char header[EVENT_HEADER];
    if (parse_event(data, size, 7, &event) < 0)
        return;
    holds(event.seq == 7 && event.length <= EVENT_DATA_MAX);
    format_event(&event, header);
    holds(memcmp(header + 8, data + 8, 8) == 0 && header[4] == (unsigned char)data[4]);
}

static void check_head(const char *data, size_t size)
{
    struct exec_head head, again;
    unsigned char value[DISK_HEAD_SIZE];
    memset(&head, 0, sizeof(head));
    memset(&again, 0, sizeof(again));
    if (parse_head(data, size, &head) < 0)
        return;
    holds(id_is_valid(ID_EXEC, head.id) && exec_state_name(head.state) != NULL);
    holds(strnlen(head.reason, sizeof(head.reason)) < sizeof(head.reason));
    format_head(&head, value);
    holds(parse_head(value, sizeof(value), &again) == 0);
    holds(strcmp(head.reason, again.reason) == 0 && head.last_seq == again.last_seq &&
          head.returncode == again.returncode && head.counted == again.counted &&
          head.stream_dropped[1] == again.stream_dropped[1]);
}

static void check_watch(const char *data, size_t size)
{
    struct watch_head head = { 0 }, again = { 0 };
    unsigned char value[DISK_WATCH_SIZE];
    if (parse_watch(data, size, &head) < 0)
        return;
    holds(id_is_valid(ID_WATCH, head.id) && exec_state_name(head.state) != NULL);
    holds(strnlen(head.reason, sizeof(head.reason)) < sizeof(head.reason) && head.base <= head.next);
    format_watch(&head, value);
    holds(parse_watch(value, sizeof(value), &again) == 0);
    holds(strcmp(head.reason, again.reason) == 0 && head.next == again.next && head.dropped == again.dropped);
}

static void check_meta(const char *data, size_t size)
{
    struct disk_meta meta;
    struct disk_idempotency idempotency;
    parse_sealed(data, size, &meta, sizeof(meta));
    parse_sealed(data, size, &idempotency, sizeof(idempotency));
}

static void check_key(const char *data, size_t size)
{
    struct events_key_parts parts;
    struct events_key again = { 0 };
    if (!key_parse(data, size, &parts))
        return;
    if (parts.kind == 0)
        again = key_event(parts.stream, parts.seq);
    else if (parts.wall_us != 0 || parts.kind == KEY_FINISHED || parts.kind == KEY_IDEMPOTENCY_AGE)
        again = key_aged((enum key_kind)parts.kind, parts.wall_us, parts.rest, parts.rest_length);
    holds(again.size == 0 || parts.wall_us < 0 ||
          (again.size == size && memcmp(again.bytes, data, size) == 0));
}

static void check_identity(const json_t *json)
{
    struct process_identity identity, again;
    if (process_identity_from_json(json, &identity) < 0)
        return;
    holds(identity.pid > 0 && strnlen(identity.boot_id, sizeof(identity.boot_id)) < sizeof(identity.boot_id));
    json_auto_t *back = process_identity_to_json(&identity);
    holds(process_identity_from_json(back, &again) == 0 && again.pid == identity.pid &&
          again.start_time == identity.start_time && strcmp(again.boot_id, identity.boot_id) == 0);
}

static void check_error(const json_t *json)
{
    _cleanup_error_ struct error err = ERROR_INIT, again = ERROR_INIT;
    error_unpack(&err, json);
    holds(err.code > ERROR_NONE && err.code < ERROR_CODE_COUNT && error_status(err.code) >= 400);
    json_auto_t *packed = error_pack(&err), *shown = error_to_json(&err);
    char *text = json_dumps(shown, JSON_COMPACT);
    holds(text != NULL);
    free(text);
    error_unpack(&again, packed);
    holds(again.code == err.code && again.retry_after == err.retry_after);
}

/* A workspace's record, as what shows it meets it. */
static void check_record(const json_t *json)
{
    const struct config config = { .driver = (char *)"local", .processes = 256 };
    json_auto_t *shown = json_object();
    view_add_identity(shown, json);
    view_add_expiry(shown, json);
    view_add_basics(shown, json);
    view_add_limits(shown, &config, json);
    char *text = json_dumps(shown, JSON_COMPACT);
    holds(text != NULL);
    free(text);
}

static void check_json(const char *data, size_t size)
{
    json_auto_t *json = field_parse_json(data, size, NULL);
    if (json == NULL)
        return;
    struct sandbox_status status;
    check_identity(json);
    check_error(json);
    driver_local.inspect(NULL, NULL, json, &status, NULL);
    if (json_is_object(json))
        check_record(json);
}

static void (*const checks[])(const char *data, size_t size) = { check_event, check_head, check_meta,
                                                                 check_key, check_json, check_watch };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 40000)
        return 0;
    char *exact = xmemdup(data + 1, size - 1);
    if ((data[0] & 0x80) && size > 5)
        format_seal(exact, size - 1);
    checks[(data[0] & 0x7F) % N_ELEMENTS(checks)](exact, size - 1);
    free(exact);
    return 0;
}
