/* Looks at everything that the storm may have left: logs, records, reader slots, sockets, processes, mounts,
 * cgroups, files, stores. */
#include "tests/chaos/aftermath.h"

#include "lib/base/io.h"
#include "lib/config/config.h"
#include "lib/driver/local/cgroup.h"
#include "lib/store/events.h"
#include "lib/store/state.h"
#include "tests/chaos/tenant.h"
#include "tests/chaos/work.h"
#include "tests/support/must.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <lmdb.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#define SETTLE_MS 20000

/* ---- while it runs ---- */

static bool wait_healthy(const struct instance *i)
{
    struct http_options quick = { .token = "", .timeout_ms = 2000, .unchecked = true };
    for (long long deadline = now_ms() + SETTLE_MS; now_ms() < deadline; sleep_ms(50)) {
        struct answer a = http_send(i, "GET", "/healthz", &quick);
        long status = a.status;
        answer_clear(&a);
        if (status == 200)
            return true;
    }
    fail("it does not answer again after the storm");
    return false;
}

/* One command in each live workspace, so that each keeper and the warden have had business. */
static void use_place(const struct instance *i, const struct place *p)
{
    char path[100];
    struct http_options o = { .body = "{\"command\": \"echo $((6*7))\"}", .unchecked = true };
    snprintf(path, sizeof path, "/api/workspaces/%s/exec", p->id);
    struct answer a = http_send(i, "POST", path, &o);
    if (a.status != 200 || strcmp(member_text(a.json, "stdout"), "42\n") != 0)
        fail("%s cannot be used after the storm: %ld %.300s", p->id, a.status, a.body ? a.body : "");
    answer_clear(&a);
}

static void check_execs(const struct instance *i, const struct place *p)
{
    char path[140];
    long long cursor = 0;
    do {
        size_t index;
        json_t *one;
        snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs?limit=100&cursor=%lld", p->id, cursor);
        json_auto_t *page = api(i, 200, "GET", path, NULL);
        json_array_foreach(json_object_get(page, "execs"), index, one) {
            const char *state = member_text(one, "state");
            if (strcmp(state, "running") == 0 || strcmp(state, "starting") == 0)
                fail("%s of %s is %s for ever", member_text(one, "exec_id"), p->id, state);
        }
        const json_t *next = json_object_get(page, "next_cursor");
        cursor = json_is_integer(next) ? json_integer_value(next) : 0;
    } while (cursor);
}

static void check_entries(const struct instance *i)
{
    unsigned count = atomic_load(&ledger->entry_count);
    for (unsigned k = 0; k < count; k++) {
        struct entry *e = &ledger->entries[k];
        int state = atomic_load(&e->state);
        if (state == ENTRY_RUNS || state == ENTRY_ENDED)
            tenant_check(i, e, 30000, true, NULL);
    }
}

static struct place *find_place(const char *id)
{
    unsigned count = atomic_load(&ledger->place_count);
    for (unsigned k = 0; k < count; k++)
        if (strcmp(ledger->places[k].id, id) == 0)
            return &ledger->places[k];
    return NULL;
}

static bool is_live(const char *id)
{
    const struct place *p = find_place(id);
    return p && atomic_load(&p->state) == PLACE_LIVE;
}

/* Exactly those that were made and not removed. */
static void check_list(const struct instance *i)
{
    size_t index, wanted = 0;
    json_t *one;
    json_auto_t *list = api(i, 200, "GET", "/api/workspaces?state=all&limit=100", NULL);
    for (unsigned k = 0; k < atomic_load(&ledger->place_count); k++)
        wanted += atomic_load(&ledger->places[k].state) == PLACE_LIVE;
    json_array_foreach(list, index, one)
        if (!is_live(member_text(one, "workspace_id")))
            fail("%s is listed: nobody has it", member_text(one, "workspace_id"));
    if (json_array_size(list) != wanted)
        fail("%zu workspaces are listed, %zu there are", json_array_size(list), wanted);
}

static int count_dead(const char *line, void *user)
{
    int pid = 0;
    if (sscanf(line, " %d", &pid) == 1 && pid > 0 && kill(pid, 0) < 0 && errno == ESRCH)
        ++*(int *)user;
    return 0;
}

/* Looks only: LMDB's own check would free them. */
static int dead_slots(const char *path)
{
    MDB_env *env;
    int dead = 0, rc = mdb_env_create(&env);
    if (rc == 0)
        mdb_env_set_maxdbs(env, 16);
    if (rc == 0)
        rc = mdb_env_open(env, path, MDB_RDONLY | MDB_NOTLS, 0);
    if (rc == 0)
        mdb_reader_list(env, count_dead, &dead);
    else
        fail("%s: %s", path, mdb_strerror(rc));
    mdb_env_close(env);
    return dead;
}

/* Who writes an environment, or watches over it, frees them before long: where there is some business. */
static void check_slots(const struct instance *i, const struct place *p, const char *path)
{
    for (long long deadline = now_ms() + SETTLE_MS; now_ms() < deadline; sleep_ms(500)) {
        if (dead_slots(path) == 0)
            return;
        use_place(i, p);
    }
    fail("%d reader slots of the dead are left in %s", dead_slots(path), path);
}

static bool is_empty(const char *path)
{
    size_t count = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count == 0;
}

static void wait_trash(const struct instance *i)
{
    _cleanup_free_ char *path = xasprintf("%s/workspaces/.trash", instance_state(i));
    for (long long deadline = now_ms() + SETTLE_MS; now_ms() < deadline; sleep_ms(50))
        if (is_empty(path))
            return;
    fail("the trash is not emptied");
}

/* Who has a socket listens on it. */
static void check_sockets(const struct instance *i)
{
    _cleanup_free_ char *path = xasprintf("%s/run", instance_state(i));
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!strstr(entry->d_name, ".sock"))
            continue;
        _cleanup_free_ char *name = xasprintf("%s/%s", path, entry->d_name);
        int fd = io_connect_unix(name, NULL);
        if (fd >= 0)
            close(fd);
        else
            fail("nobody listens on %s", entry->d_name);
    }
    if (dir)
        closedir(dir);
}

void aftermath_running(const struct instance *i)
{
    if (!wait_healthy(i))
        return;
    check_entries(i);
    const struct place *last = NULL;
    for (unsigned k = 0; k < atomic_load(&ledger->place_count); k++) {
        const struct place *p = &ledger->places[k];
        if (atomic_load(&p->state) != PLACE_LIVE)
            continue;
        use_place(i, p);
        check_execs(i, p);
        _cleanup_free_ char *path = xasprintf("%s/events/%s", instance_state(i), p->id);
        check_slots(i, p, path);
        last = p;
    }
    check_list(i);
    wait_trash(i);
    check_sockets(i);
    _cleanup_free_ char *state = xasprintf("%s/state", instance_state(i));
    if (last)
        check_slots(i, last, state);
}

/* ---- after its end ---- */

/* Others of the machine mount and unmount too: what lies below the state directory is the installation's. */
static void check_mounts(const char *state_dir)
{
    char line[4096], point[4096];
    _cleanup_free_ char *below = xasprintf("%s/", state_dir);
    FILE *file = fopen("/proc/self/mountinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1 && strncmp(point, below, strlen(below)) == 0)
            fail("%s is still mounted", point);
    if (file)
        fclose(file);
}

static char cgroups[CGROUP_PREFIX_SIZE];

static int look_at_cgroup(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    if (type == FTW_D && strncmp(path + at->base, cgroups, strlen(cgroups)) == 0)
        fail("the cgroup %s is left", path);
    return 0;
}

static void check_names(const char *state_dir, const char *folder)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", state_dir, folder);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && !is_live(entry->d_name))
            fail("%s/%s belongs to nobody", folder, entry->d_name);
    if (dir)
        closedir(dir);
}

static void check_run(const char *state_dir)
{
    _cleanup_free_ char *path = xasprintf("%s/run", state_dir);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strstr(entry->d_name, ".sock"))
            fail("the socket run/%s is left", entry->d_name);
    if (dir)
        closedir(dir);
}

static void verify_logs(const char *state_dir)
{
    struct events_cache *cache = events_cache_new(state_dir, 4);
    for (unsigned k = 0; k < atomic_load(&ledger->place_count); k++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        const struct place *p = &ledger->places[k];
        if (atomic_load(&p->state) != PLACE_LIVE)
            continue;
        struct events_reader *r = events_cache_get(cache, p->id, &err);
        if (!r || events_verify(r, &err) < 0)
            fail("the log of %s: %s", p->id, err.message);
    }
    events_cache_free(cache);
}

static void verify_records(const char *state_dir)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *list = NULL;
    size_t index;
    json_t *one;
    struct state *state = state_open(state_dir, &err);
    if (!state || state_list_workspaces(state, NULL, NULL, PLACES_MAX, &list, &err) < 0)
        fail("the records: %s", err.message);
    json_array_foreach(list, index, one) {
        const char *s = member_text(one, "state");
        if (strcmp(s, "stopped") != 0)
            fail("%s is %s, but all has ended", member_text(one, "workspace_id"), s);
        if (!is_live(member_text(one, "workspace_id")))
            fail("there is a record of %s, which nobody has", member_text(one, "workspace_id"));
    }
    if (state)
        state_close(state);
}

static void run_doctor(const char *state_dir)
{
    char line[800];
    _cleanup_free_ char *command =
        xasprintf("'%s' doctor --state '%s' 2>&1", build_path("workspace-fcgi"), state_dir);
    FILE *out = popen(command, "r");
    while (out && fgets(line, sizeof line, out))
        if (strncmp(line, "fail", 4) == 0)
            fail("doctor: %.*s", (int)strcspn(line, "\n"), line);
    must_hold(out && pclose(out) >= 0);
}

/* Lines that must never be there. */
static void read_log(const char *path)
{
    static const char *const bad[] = { "Sanitizer",
                                       "runtime error",
                                       "DAMAGED",
                                       "signal 11",
                                       "signal 6",
                                       "signal 7",
                                       "signal 8",
                                       "does not fit",
                                       "did not end when it had to",
                                       "is not what it declares" };
    char line[2000];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        for (size_t k = 0; k < N_ELEMENTS(bad); k++)
            if (strstr(line, bad[k]))
                fail("in the log: %.*s", (int)strcspn(line, "\n"), line);
    if (file)
        fclose(file);
}

void aftermath_ended(const char *state_dir, const char *log)
{
    check_mounts(state_dir);
    cgroup_prefix(state_dir, cgroups);
    nftw("/sys/fs/cgroup", look_at_cgroup, 16, FTW_PHYS);
    check_names(state_dir, "events");
    check_names(state_dir, "workspaces");
    check_run(state_dir);
    verify_logs(state_dir);
    verify_records(state_dir);
    run_doctor(state_dir);
    read_log(log);
}
