/* The durable records: workspaces, their index and user ids, idempotency keys, tokens; by one process and by
 * many. */
#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/store/migrate.h"
#include "lib/store/state.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct error err;
static struct state *s;

static void setup(void)
{
    scratch_make();
}

static void open_store(void)
{
    s = state_open(scratch, &err);
    ck_assert_msg(s != NULL, "%s", err.message);
}

static void teardown(void)
{
    state_close(s);
    error_clear(&err);
    scratch_remove();
}

static json_t *make_record(const char *owner)
{
    char id[ID_SIZE];
    id_make(ID_WORKSPACE, id);
    return json_pack("{s:i, s:s, s:s, s:s, s:{s:s}}", "v", 1, "workspace_id", id, "owner", owner, "state",
                     "creating", "spec", "name", "n");
}

static const char *id_of(const json_t *record)
{
    return json_string_value(json_object_get(record, "workspace_id"));
}

static json_t *create(const char *owner)
{
    json_t *record = make_record(owner);
    ck_assert_int_eq(state_create_workspace(s, record, NULL, 0, 0, 0, NULL, &err), 0);
    return record;
}

static json_int_t uid_of(const json_t *record)
{
    return json_integer_value(json_object_get(record, "uid"));
}

/* ---- records ---- */
START_TEST(a_record_lives_and_goes)
{
    open_store();
    json_auto_t *record = create("owner"), *read = NULL, *again = NULL;
    ck_assert_int_eq(state_get_workspace(s, id_of(record), &read, &err), 0);
    ck_assert(json_equal(record, read));
    json_object_set_new(record, "state", json_string("running"));
    ck_assert_int_eq(state_update_workspace(s, record, &err), 0);
    json_auto_t *changes = json_pack("{s:i, s:{s:s}}", "used_us", 5, "tags", "a", "b"), *patched = NULL;
    ck_assert_int_eq(state_patch_workspace(s, id_of(record), changes, &patched, &err), 0);
    ck_assert_int_eq(state_get_workspace(s, id_of(record), &again, &err), 0);
    ck_assert(json_equal(again, patched));
    ck_assert_str_eq(json_string_value(json_object_get(again, "state")), "running");
    ck_assert_int_eq(json_integer_value(json_object_get(again, "used_us")), 5);
    ck_assert_int_eq(state_create_workspace(s, record, NULL, 0, 0, 0, NULL, &err), -1);
    ck_assert_int_eq(err.code, ERROR_CONFLICT);
    ck_assert_int_eq(state_remove_workspace(s, id_of(record), false, &err), 0);
    ck_assert_int_eq(state_remove_workspace(s, id_of(record), false, &err), 0);
    ck_assert_int_eq(state_update_workspace(s, record, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
    ck_assert_int_eq(state_patch_workspace(s, id_of(record), changes, NULL, &err), -1);
    ck_assert_int_eq(state_get_workspace(s, id_of(record), &read, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
}
END_TEST

START_TEST(odd_ids_are_not_found)
{
    open_store();
    const char *const ids[] = {
        NULL, "", "ws-", "ws-0123", "../state", "ws-0123456789abcdef0123456789abcdeg"
    };
    for (size_t i = 0; i < N_ELEMENTS(ids); i++) {
        json_t *read = NULL;
        ck_assert_int_eq(state_get_workspace(s, ids[i], &read, &err), -1);
        ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
        ck_assert_int_eq(state_remove_workspace(s, ids[i], true, &err), 0);
    }
    json_auto_t *nothing = json_object();
    ck_assert_int_eq(state_update_workspace(s, nothing, &err), -1);
    ck_assert_int_eq(state_create_workspace(s, nothing, NULL, 0, 0, 0, NULL, &err), -1);
}
END_TEST

START_TEST(records_outlive_the_process)
{
    int status;
    json_auto_t *record = make_record("owner"), *read = NULL;
    pid_t pid = fork();
    if (pid == 0) {
        open_store();
        if (state_create_workspace(s, record, NULL, 0, 0, 0, NULL, &err) == 0)
            raise(SIGKILL);
        _exit(1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status));
    open_store();
    ck_assert_int_eq(state_get_workspace(s, id_of(record), &read, &err), 0);
    json_object_set_new(record, "number", json_integer(1)); /* it is the first */
    ck_assert(json_equal(record, read));
}
END_TEST

/* ---- lists ---- */
static size_t list_all(const char *owner, size_t page)
{
    char after[ID_SIZE] = "";
    size_t count = 0;
    for (;;) {
        json_auto_t *array = NULL;
        size_t i;
        json_t *record;
        ck_assert_int_eq(state_list_workspaces(s, owner, *after ? after : NULL, page, &array, &err), 0);
        json_array_foreach(array, i, record) {
            ck_assert_int_gt(strcmp(id_of(record), after), 0);
            ck_assert(!owner || strcmp(json_string_value(json_object_get(record, "owner")), owner) == 0);
            snprintf(after, sizeof after, "%s", id_of(record));
        }
        count += json_array_size(array);
        ck_assert_uint_le(json_array_size(array), page);
        if (json_array_size(array) < page)
            return count;
    }
}

START_TEST(lists_are_by_owner)
{
    open_store();
    char *long_owner = xcalloc(1, 5001);
    memset(long_owner, 'o', 5000);
    const char *const owners[] = { "owner", "alice", long_owner, "" };
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 3 + i * 4; k++)
            json_decref(create(owners[i]));
    for (size_t page = 1; page < 30; page += 3) {
        for (size_t i = 0; i < 4; i++)
            ck_assert_uint_eq(list_all(owners[i], page), 3 + i * 4);
        ck_assert_uint_eq(list_all(NULL, page), 36);
        ck_assert_uint_eq(list_all("bob", page), 0);
    }
    json_auto_t *moved = create("alice"), *changes = json_pack("{s:s}", "owner", "bob");
    ck_assert_int_eq(state_patch_workspace(s, id_of(moved), changes, NULL, &err), 0);
    ck_assert_uint_eq(list_all("bob", 10), 1);
    ck_assert_uint_eq(list_all("alice", 10), 7);
    ck_assert_int_eq(state_remove_workspace(s, id_of(moved), false, &err), 0);
    ck_assert_uint_eq(list_all("bob", 10), 0);
    free(long_owner);
}
END_TEST

/* ---- limits ---- */
START_TEST(there_is_a_most)
{
    open_store();
    for (int i = 0; i < 5; i++)
        json_decref(create("o"));
    json_auto_t *record = make_record("o");
    ck_assert_int_eq(state_create_workspace(s, record, NULL, 5, 0, 0, NULL, &err), -1);
    ck_assert_int_eq(err.code, ERROR_TOO_MANY);
    ck_assert_int_eq(state_create_workspace(s, record, NULL, 6, 0, 0, NULL, &err), 0);
    ck_assert_uint_eq(list_all(NULL, 100), 6);
}
END_TEST

START_TEST(user_ids_are_unique_and_rest)
{
    open_store();
    json_t *records[10];
    for (int i = 0; i < 10; i++) {
        records[i] = make_record("o");
        ck_assert_int_eq(state_create_workspace(s, records[i], NULL, 0, 5000, 10, NULL, &err), 0);
        ck_assert_int_eq(uid_of(records[i]), 5000 + i);
    }
    json_auto_t *more = make_record("o"), *read = NULL;
    ck_assert_int_eq(state_create_workspace(s, more, NULL, 0, 5000, 10, NULL, &err), -1);
    ck_assert_int_eq(err.code, ERROR_TOO_MANY);
    ck_assert_int_eq(state_remove_workspace(s, id_of(records[3]), false, &err), 0);
    ck_assert_int_eq(state_remove_workspace(s, id_of(records[7]), false, &err), 0);
    ck_assert_int_eq(state_create_workspace(s, more, NULL, 0, 5000, 10, NULL, &err), 0);
    ck_assert_int_eq(uid_of(more), 5003);
    ck_assert_int_eq(state_get_workspace(s, id_of(more), &read, &err), 0);
    ck_assert_int_eq(uid_of(read), 5003);
    json_auto_t *next = make_record("o");
    ck_assert_int_eq(state_create_workspace(s, next, NULL, 0, 5000, 10, NULL, &err), 0);
    ck_assert_int_eq(uid_of(next), 5007);
    /* 5003 is free again, but it rests */
    json_auto_t *other = make_record("o");
    ck_assert_int_eq(state_remove_workspace(s, id_of(more), false, &err), 0);
    ck_assert_int_eq(state_remove_workspace(s, id_of(records[9]), false, &err), 0);
    ck_assert_int_eq(state_create_workspace(s, other, NULL, 0, 5000, 10, NULL, &err), 0);
    ck_assert_int_eq(uid_of(other), 5009);
    for (int i = 0; i < 10; i++)
        json_decref(records[i]);
}
END_TEST

START_TEST(many_processes_create_at_once)
{
    enum { PROCESSES = 8, EACH = 12, MOST = 80 };
    int status, created = 0;
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            int own = 0;
            open_store();
            for (int k = 0; k < EACH; k++) {
                json_auto_t *record = make_record("o");
                int result = state_create_workspace(s, record, NULL, MOST, 70000, 90, NULL, &err);
                if (result == 0)
                    own++;
                else if (err.code != ERROR_TOO_MANY)
                    _exit(255);
            }
            _exit(own);
        }
    for (int i = 0; i < PROCESSES; i++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) != 255);
        created += WEXITSTATUS(status);
    }
    ck_assert_int_eq(created, MOST);
    open_store();
    bool taken[90] = { false };
    json_auto_t *all = NULL;
    size_t i;
    json_t *record;
    ck_assert_int_eq(state_list_workspaces(s, "o", NULL, 1000, &all, &err), 0);
    ck_assert_uint_eq(json_array_size(all), MOST);
    json_array_foreach(all, i, record) {
        json_int_t uid = uid_of(record);
        ck_assert(uid >= 70000 && uid < 70090 && !taken[uid - 70000]);
        taken[uid - 70000] = true;
    }
}
END_TEST

START_TEST(a_small_map_grows_for_all)
{
    s = state_open_sized(scratch, 128 << 10, &err);
    ck_assert_msg(s != NULL, "%s", err.message);
    int status, go[2], done[2];
    ck_assert_int_eq(pipe2(go, O_CLOEXEC) | pipe2(done, O_CLOEXEC), 0);
    state_close(s);
    pid_t other = fork();
    if (other == 0) { /* has it open while it grows, then writes and reads */
        char byte;
        s = state_open_sized(scratch, 128 << 10, &err);
        if (write(done[1], "r", 1) != 1 || read(go[0], &byte, 1) != 1)
            _exit(2);
        json_decref(create("p"));
        _exit(list_all("o", 50) == 300 ? 0 : 1);
    }
    char byte, text[3001] = "";
    memset(text, 't', 3000);
    ck_assert_int_eq(read(done[0], &byte, 1), 1);
    s = state_open_sized(scratch, 128 << 10, &err);
    for (int i = 0; i < 300; i++) {
        json_auto_t *record = make_record("o");
        json_object_set_new(record, "text", json_string(text));
        ck_assert_int_eq(state_create_workspace(s, record, NULL, 0, 1000, 1000, NULL, &err), 0);
    }
    ck_assert_int_eq(write(go[1], "g", 1), 1);
    ck_assert_int_eq(waitpid(other, &status, 0), other);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_uint_eq(list_all(NULL, 100), 301);
}
END_TEST

static void *read_and_write(void *user)
{
    const char *id = user;
    for (int i = 0; i < 40; i++) {
        struct error mine = ERROR_INIT;
        json_auto_t *changes = json_pack("{s:i}", "used_us", i);
        if (state_patch_workspace(s, id, changes, NULL, &mine) < 0)
            return user;
        for (int k = 0; k < 200; k++) {
            json_auto_t *read = NULL;
            if (state_get_workspace(s, id, &read, &mine) < 0)
                return user;
        }
    }
    return NULL;
}

START_TEST(threads_share_a_store)
{
    pthread_t threads[4];
    open_store();
    json_auto_t *record = create("o");
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_and_write, (void *)id_of(record)), 0);
    for (size_t i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
}
END_TEST

/* ---- idempotency ---- */
START_TEST(a_key_creates_once)
{
    open_store();
    struct state_idempotency idem = { "owner", "key", "digest", 3600 };
    json_auto_t *record = make_record("owner"), *second = make_record("owner"), *existing = NULL,
                *found = NULL;
    ck_assert_int_eq(state_create_workspace(s, record, &idem, 0, 0, 0, NULL, &err), 0);
    ck_assert_int_eq(state_create_workspace(s, second, &idem, 1, 0, 0, &existing, &err), 1);
    ck_assert_str_eq(id_of(existing), id_of(record));
    ck_assert_str_eq(json_string_value(json_object_get(existing, "digest")), "digest");
    ck_assert_int_eq(state_find_idempotency(s, "owner", "key", &found, &err), 0);
    ck_assert(json_equal(found, existing));
    ck_assert_int_eq(state_find_idempotency(s, "other", "key", &found, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
    ck_assert_uint_eq(list_all(NULL, 10), 1);
    /* removed: the key still answers, unless it is to be forgotten */
    ck_assert_int_eq(state_remove_workspace(s, id_of(record), false, &err), 0);
    json_auto_t *still = NULL;
    ck_assert_int_eq(state_find_idempotency(s, "owner", "key", &still, &err), 0);
    idem.key = "another";
    ck_assert_int_eq(state_create_workspace(s, second, &idem, 0, 0, 0, NULL, &err), 0);
    ck_assert_int_eq(state_remove_workspace(s, id_of(second), true, &err), 0);
    ck_assert_int_eq(state_find_idempotency(s, "owner", "another", &still, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
}
END_TEST

static json_t *make_named(const char *owner, const char *name)
{
    json_t *record = make_record(owner);
    json_object_set_new(record, "name", json_string(name));
    return record;
}

/* Who asks by name has the first that was made of that name while there is one, whatever the clocks said. */
START_TEST(a_name_creates_once)
{
    static const struct state_idempotency by_name = { .key = NULL };
    open_store();
    char found[ID_SIZE];
    json_auto_t *first = make_named("owner", "x"), *second = make_named("owner", "x"),
                *others = make_named("other", "x"), *named_else = make_named("owner", "y"), *existing = NULL,
                *again = NULL;
    ck_assert_int_eq(state_find_named(s, "owner", "x", found, &err), 0);
    ck_assert_int_eq(state_create_workspace(s, first, &by_name, 0, 0, 0, NULL, &err), 0);
    ck_assert_int_eq(state_create_workspace(s, second, &by_name, 1, 0, 0, &existing, &err), 1);
    ck_assert_str_eq(id_of(existing), id_of(first));
    ck_assert_int_eq(state_create_workspace(s, others, &by_name, 0, 0, 0, NULL, &err), 0);
    ck_assert_int_eq(state_create_workspace(s, named_else, &by_name, 0, 0, 0, NULL, &err), 0);
    /* made on purpose, at a time that seems earlier */
    json_object_set_new(second, "created_us", json_integer(1));
    ck_assert_int_eq(state_create_workspace(s, second, NULL, 0, 0, 0, NULL, &err), 0);
    ck_assert_int_eq(state_find_named(s, "owner", "x", found, &err), 1);
    ck_assert_str_eq(found, id_of(first));
    ck_assert_int_eq(state_remove_workspace(s, id_of(first), false, &err), 0);
    ck_assert_int_eq(state_create_workspace(s, first, &by_name, 0, 0, 0, &again, &err), 1);
    ck_assert_str_eq(id_of(again), id_of(second));
    ck_assert_int_eq(state_remove_workspace(s, id_of(second), false, &err), 0);
    ck_assert_int_eq(state_create_workspace(s, first, &by_name, 0, 0, 0, NULL, &err), 0);
    ck_assert_int_eq(state_find_named(s, "owner", "x", found, &err), 1);
    ck_assert_str_eq(found, id_of(first));
}
END_TEST

/* Records of before that order was counted were first, by their time. */
START_TEST(old_records_come_first)
{
    open_store();
    char found[ID_SIZE];
    json_auto_t *fresh = make_named("owner", "x"), *late = make_named("owner", "x"),
                *early = make_named("owner", "x");
    json_t *all[] = { fresh, late, early };
    for (size_t i = 0; i < N_ELEMENTS(all); i++) {
        json_object_set_new(all[i], "created_us", json_integer(10 - (json_int_t)i));
        ck_assert_int_eq(state_create_workspace(s, all[i], NULL, 0, 0, 0, NULL, &err), 0);
    }
    ck_assert_int_eq(state_find_named(s, "owner", "x", found, &err), 1);
    ck_assert_str_eq(found, id_of(fresh));
    for (size_t i = 1; i < N_ELEMENTS(all); i++) {
        json_object_del(all[i], "number");
        ck_assert_int_eq(state_update_workspace(s, all[i], &err), 0);
    }
    ck_assert_int_eq(state_find_named(s, "owner", "x", found, &err), 1);
    ck_assert_str_eq(found, id_of(early));
}
END_TEST

START_TEST(many_processes_create_one_name)
{
    enum { PROCESSES = 8, EACH = 10 };
    static const struct state_idempotency by_name = { .key = NULL };
    int status, created = 0;
    for (int i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            int own = 0;
            open_store();
            for (int k = 0; k < EACH; k++) {
                char name[8];
                snprintf(name, sizeof(name), "n%d", k);
                json_auto_t *record = make_named("o", name);
                own += state_create_workspace(s, record, &by_name, 0, 0, 0, NULL, &err) == 0;
            }
            _exit(err.code == ERROR_NONE ? own : 255);
        }
    for (int i = 0; i < PROCESSES; i++) {
        ck_assert_int_gt(wait(&status), 0);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) != 255);
        created += WEXITSTATUS(status);
    }
    ck_assert_int_eq(created, EACH);
    open_store();
    ck_assert_uint_eq(list_all("o", 3), EACH);
}
END_TEST

START_TEST(keys_expire)
{
    open_store();
    struct state_idempotency idem = { "owner", "key", "digest", 100 };
    json_auto_t *record = make_record("owner"), *found = NULL;
    ck_assert_int_eq(state_create_workspace(s, record, &idem, 0, 0, 0, NULL, &err), 0);
    ck_assert_int_eq(state_prune(s, clock_wall_s(), &err), 0);
    ck_assert_int_eq(state_find_idempotency(s, "owner", "key", &found, &err), 0);
    ck_assert_int_eq(state_prune(s, clock_wall_s() + 101, &err), 0);
    ck_assert_int_eq(state_prune(s, clock_wall_s() + 101, &err), 0);
    json_auto_t *gone = NULL;
    ck_assert_int_eq(state_find_idempotency(s, "owner", "key", &gone, &err), -1);
    idem.ttl_s = -1;
    json_auto_t *second = make_record("owner");
    ck_assert_int_eq(state_create_workspace(s, second, &idem, 0, 0, 0, NULL, &err), 0);
    ck_assert_int_eq(state_find_idempotency(s, "owner", "key", &gone, &err), -1);
    json_auto_t *third = make_record("owner");
    ck_assert_int_eq(state_create_workspace(s, third, &idem, 0, 0, 0, NULL, &err), 0);
}
END_TEST

/* ---- tokens ---- */
START_TEST(tokens_are_found_by_hash)
{
    open_store();
    char hash[ID_HASH_SIZE];
    id_hash("secret", 6, hash);
    ck_assert_int_eq(state_count_tokens(s, &err), 0);
    json_auto_t *record =
        json_pack("{s:i, s:s, s:s, s:[s]}", "v", 1, "id", "tk-1", "principal", "alice", "scopes", "read");
    ck_assert_int_eq(state_add_token(s, hash, record, &err), 0);
    ck_assert_int_eq(state_add_token(s, hash, record, &err), -1);
    ck_assert_int_eq(err.code, ERROR_CONFLICT);
    ck_assert_int_eq(state_count_tokens(s, &err), 1);
    json_auto_t *found = NULL, *list = NULL, *none = NULL;
    ck_assert_int_eq(state_find_token(s, hash, &found, &err), 0);
    ck_assert(json_equal(found, record));
    ck_assert_int_eq(state_find_token(s, "", &none, &err), -1);
    ck_assert_int_eq(state_list_tokens(s, &list, &err), 0);
    ck_assert_uint_eq(json_array_size(list), 1);
    ck_assert_int_eq(state_remove_token(s, "tk-2", &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
    ck_assert_int_eq(state_remove_token(s, "tk-1", &err), 0);
    ck_assert_int_eq(state_find_token(s, hash, &none, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_FOUND);
    ck_assert_int_eq(state_count_tokens(s, &err), 0);
}
END_TEST

/* ---- versions ---- */
static int add_a_mark(struct transaction *t, struct error *problem)
{
    json_auto_t *mark = json_string("was here");
    return transaction_put(t, TABLE_META, "mark", mark, problem);
}

static int break_down(struct transaction *t, struct error *problem)
{
    return add_a_mark(t, problem) < 0 ? -1 : error_set(problem, ERROR_INTERNAL, "cannot");
}

static int read_mark(struct transaction *t, void *user, struct error *problem)
{
    return transaction_get(t, TABLE_META, "mark", user, problem) < 0 ? -1 : 0;
}

START_TEST(migrations_run_once_in_order)
{
    const struct migration broken[] = { { 1, "first", NULL }, { 2, "breaks", break_down } };
    const struct migration rows[] = { { 1, "first", NULL },
                                      { 2, "marks", add_a_mark },
                                      { 3, "no more than a number", NULL } };
    json_auto_t *mark = NULL, *after = NULL;
    open_store();
    ck_assert_int_eq(migrate_rows(s, broken, 2, &err), -1);
    ck_assert_int_eq(transaction_read(s, read_mark, &mark, &err), 0);
    ck_assert_ptr_null(mark);
    ck_assert_int_eq(migrate_rows(s, rows, 3, &err), 0);
    ck_assert_int_eq(migrate_rows(s, rows, 3, &err), 0);
    ck_assert_int_eq(transaction_read(s, read_mark, &after, &err), 0);
    ck_assert_ptr_nonnull(after);
    state_close(s);
    /* now it is newer than this program */
    s = state_open(scratch, &err);
    ck_assert_ptr_null(s);
    ck_assert_int_eq(err.code, ERROR_UNAVAILABLE);
}
END_TEST

START_TEST(files_belong_to_the_owner_of_the_directory)
{
    struct stat st;
    const struct passwd *user = getpwnam("www-data");
    if (geteuid() == 0 && user)
        ck_assert_int_eq(chown(scratch, user->pw_uid, user->pw_gid), 0);
    umask(077);
    open_store();
    const struct {
        const char *name;
        mode_t mode;
    } files[] = { { "state", S_IFDIR | 0770 },
                  { "state/data.mdb", S_IFREG | 0660 },
                  { "state/lock.mdb", S_IFREG | 0660 } };
    for (size_t i = 0; i < N_ELEMENTS(files); i++) {
        _cleanup_free_ char *path = xasprintf("%s/%s", scratch, files[i].name);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_int_eq(st.st_mode, files[i].mode);
        ck_assert_int_eq(st.st_uid, geteuid() == 0 && user ? user->pw_uid : geteuid());
    }
    /* no hole in the lock: a store into one on a full disk would be SIGBUS */
    ck_assert_int_ge(st.st_blocks * 512, st.st_size);
    ck_assert_int_ge(st.st_size, 1024 * 64);
}
END_TEST

START_TEST(dead_readers_are_counted)
{
    int status;
    open_store();
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            s = NULL;
            open_store();
            list_all(NULL, 10);
            raise(SIGKILL);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    }
    ck_assert_int_eq(state_check_readers(s), 3);
    ck_assert_int_eq(state_check_readers(s), 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_record_lives_and_goes,
        odd_ids_are_not_found,
        records_outlive_the_process,
        lists_are_by_owner,
        there_is_a_most,
        user_ids_are_unique_and_rest,
        many_processes_create_at_once,
        a_small_map_grows_for_all,
        threads_share_a_store,
        a_key_creates_once,
        a_name_creates_once,
        old_records_come_first,
        many_processes_create_one_name,
        keys_expire,
        tokens_are_found_by_hash,
        migrations_run_once_in_order,
        files_belong_to_the_owner_of_the_directory,
        dead_readers_are_counted,
    };
    return unit_run_tests("store_state", tests, N_ELEMENTS(tests), setup, teardown, 60);
}
