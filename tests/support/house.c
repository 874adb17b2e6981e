/* Starts keepers and wardens for tests, reads what they wrote. */
#include "tests/support/house.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/process.h"
#include "lib/keeper/keeper.h"
#include "lib/warden/warden.h"
#include "tests/support/unit.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *text_in(const json_t *in, const char *name)
{
    return json_string_value(json_object_get(in, name));
}

static int64_t number_in(const json_t *in, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(in, name);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

/* ---- the program as keeper and warden ---- */

static int op_start(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    struct exec_head head;
    struct exec_request request = { .command = text_in(in, "command"),
                                    .workdir = text_in(in, "workdir"),
                                    .env = json_object_get(in, "env"),
                                    .pty = json_is_true(json_object_get(in, "pty")),
                                    .merge_stderr = json_is_true(json_object_get(in, "merge_stderr")),
                                    .stdin_is_null = !json_is_true(json_object_get(in, "input")),
                                    .rows = 24,
                                    .cols = 80,
                                    .timeout_s = number_in(in, "timeout_seconds", 0) };
    if (keeper_exec_start(call, &request, &head, err) < 0)
        return -1;
    *ret = json_pack("{s:s}", "exec_id", head.id);
    return 0;
}

static int op_input(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    const json_t *data = json_object_get(in, "data");
    *ret = json_object();
    return keeper_exec_input(keeper_of(call), text_in(in, "exec_id"), json_string_value(data),
                             json_string_length(data), json_is_true(json_object_get(in, "eof")), err);
}

static int op_signal(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    *ret = json_object();
    return keeper_exec_signal(keeper_of(call), text_in(in, "exec_id"),
                              process_signal_number(text_in(in, "signal")),
                              json_is_true(json_object_get(in, "tree")), err);
}

static int op_resize(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    *ret = json_object();
    return keeper_exec_resize(keeper_of(call), text_in(in, "exec_id"), (int)number_in(in, "rows", 0),
                              (int)number_in(in, "cols", 0), err);
}

static int op_extend(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    return keeper_extend(keeper_of(call), number_in(in, "timeout_seconds", 0),
                         number_in(in, "idle_timeout_seconds", 0), ret, err);
}

static int op_stop(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    (void)ret;
    return keeper_stop(call, json_is_true(json_object_get(in, "remove")), err);
}

static int op_record(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err)
{
    (void)in;
    (void)err;
    *ret = json_deep_copy(keeper_record(keeper_of(call)));
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct keeper_call *call, const json_t *in, json_t **ret, struct error *err);
} operations[] = {
    { "start", op_start },   { "input", op_input }, { "signal", op_signal }, { "resize", op_resize },
    { "extend", op_extend }, { "stop", op_stop },   { "record", op_record },
};

static int dispatch(struct keeper_call *call, const char *operation, const json_t *in, json_t **ret,
                    struct error *err)
{
    for (size_t i = 0; i < N_ELEMENTS(operations); i++)
        if (strcmp(operations[i].name, operation) == 0)
            return operations[i].run(call, in, ret, err);
    return error_set(err, ERROR_INVALID, "no such operation");
}

/* Every process that names the directory in its command line. */
static void end_processes(const char *dir)
{
    DIR *proc = opendir("/proc");
    for (struct dirent *entry; proc != NULL && (entry = readdir(proc)) != NULL;) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        char path[64], line[4096] = "";
        snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
        int fd = pid > 1 && pid != getpid() ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        int pidfd = process_pidfd_open(pid);
        ssize_t got = read(fd, line, sizeof(line) - 1);
        close(fd);
        if (pidfd >= 0 && got > 0 && memmem(line, (size_t)got, dir, strlen(dir)) != NULL) {
            process_pidfd_signal(pidfd, SIGKILL);
            process_pidfd_wait(pidfd, 5000);
        }
        if (pidfd >= 0)
            close(pidfd);
    }
    if (proc != NULL)
        closedir(proc);
}

/* Where all houses of this run of the program stand. A test that fails never comes to house_close, so the
 * program itself looks after what is left. */
static char base[32];
static pid_t base_owner;

static void clean_up(void)
{
    if (getpid() != base_owner)
        return;
    _cleanup_free_ char *mounted = house_mount_point();
    end_processes(base);
    umount2(mounted, MNT_DETACH);
    io_remove_tree(AT_FDCWD, base, NULL);
}

static void make_base(void)
{
    snprintf(base, sizeof(base), "/tmp/house-XXXXXX");
    if (mkdtemp(base) == NULL || chmod(base, 0711) < 0)
        abort();
    base_owner = getpid();
    atexit(clean_up);
}

char *house_mount_point(void)
{
    return xasprintf("%s/mounted", base);
}

struct arguments {
    const char *state, *chore, *id;
    int ready_fd, spec_fd;
};

static void parse(int argc, char **argv, struct arguments *ret)
{
    *ret = (struct arguments){ .ready_fd = -1, .spec_fd = -1 };
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--state") == 0)
            ret->state = argv[++i];
        else if (strcmp(argv[i], "--chore") == 0)
            ret->chore = argv[++i];
        else if (strcmp(argv[i], "--ready-fd") == 0)
            ret->ready_fd = atoi(argv[++i]);
        else if (strcmp(argv[i], "--spec-fd") == 0)
            ret->spec_fd = atoi(argv[++i]);
        else
            ret->id = argv[i];
    }
    if (ret->ready_fd >= 0)
        fcntl(ret->ready_fd, F_SETFD, FD_CLOEXEC);
    if (ret->spec_fd >= 0)
        fcntl(ret->spec_fd, F_SETFD, FD_CLOEXEC);
}

static int run_as(const char *what, const struct config *config, const struct arguments *a)
{
    char program[4096];
    if (strcmp(what, "keep") == 0) {
        struct keeper_options options = { .config = config,
                                          .workspace_id = a->id,
                                          .spec_fd = a->spec_fd,
                                          .ready_fd = a->ready_fd,
                                          .dispatch = dispatch };
        return keeper_run(&options);
    }
    if (a->chore != NULL)
        return warden_chore(config, a->chore, a->id, a->ready_fd);
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    program[length > 0 ? length : 0] = '\0';
    return warden_run(config, program, 0);
}

int house_main(int argc, char **argv)
{
    struct arguments a;
    _cleanup_error_ struct error err = ERROR_INIT;
    if (argc < 2 || (strcmp(argv[1], "keep") != 0 && strcmp(argv[1], "warden") != 0)) {
        make_base();
        return -1;
    }
    parse(argc, argv, &a);
    _cleanup_free_ char *state = xasprintf("WORKSPACE_STATE_DIR=%s", a.state);
    const char *overrides[] = { state, NULL };
    struct config *config = config_load(NULL, overrides, &err);
    if (config == NULL) {
        fprintf(stderr, "%s\n", err.message);
        return 2;
    }
    log_init(argv[1], getenv("HOUSE_QUIET") != NULL ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, NULL);
    int status = run_as(argv[1], config, &a);
    config_free(config);
    return status;
}

int house_run_tests(int argc, char **argv, const char *name, const TTest *const *tests, size_t count)
{
    int status = house_main(argc, argv);
    if (status >= 0)
        return status;
    setenv("HOUSE_QUIET", "1", 0);
    return unit_run_tests(name, tests, count, NULL, NULL, 60);
}

/* ---- the house ---- */

static void name_agent(void)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    ck_assert_int_gt(length, 0);
    path[length] = '\0';
    char *tests = strstr(path, "/tests/"); /* build/tests/test_x -> build/workspace-agent */
    ck_assert_ptr_nonnull(tests);
    snprintf(tests, sizeof(path) - (size_t)(tests - path), "/workspace-agent");
    if (getenv("WORKSPACE_AGENT") == NULL)
        setenv("WORKSPACE_AGENT", path, 1);
}

static void set_variable(const char *setting)
{
    const char *equals = strchr(setting, '=');
    _cleanup_free_ char *name = xstrndup(setting, (size_t)(equals - setting));
    setenv(name, equals + 1, 1);
}

void house_open(struct house *h, const char *parent, const char *const *settings)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    name_agent();
    for (; settings != NULL && *settings != NULL; settings++)
        set_variable(*settings);
    snprintf(h->dir, sizeof(h->dir), "%s/XXXXXX", parent != NULL ? parent : base);
    ck_assert_ptr_nonnull(mkdtemp(h->dir));
    _cleanup_free_ char *state = xasprintf("WORKSPACE_STATE_DIR=%s", h->dir);
    const char *overrides[] = { state, NULL };
    h->config = config_load(NULL, overrides, &err);
    ck_assert_msg(h->config != NULL, "%s", err.message);
    h->state = state_open(h->dir, &err);
    ck_assert_msg(h->state != NULL, "%s", err.message);
    h->events = events_cache_new(h->dir, 8);
}

void house_close(struct house *h)
{
    end_processes(h->dir);
    events_cache_free(h->events);
    state_close(h->state);
    config_free(h->config);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    io_remove_tree(AT_FDCWD, h->dir, NULL);
}

json_t *house_record(char id[static ID_SIZE], json_t *spec)
{
    char created[CLOCK_TEXT_SIZE];
    int64_t now = clock_wall_us();
    json_t *all = json_pack("{s:i, s:i, s:f, s:f, s:i, s:i, s:b}", "timeout_seconds", 3600,
                            "idle_timeout_seconds", 900, "cpu", 2.0, "cpu_limit", 4.0, "memory_mib", 1024,
                            "memory_limit_mib", 2048, "block_network", 0);
    if (id[0] == '\0')
        id_make(ID_WORKSPACE, id);
    if (spec != NULL)
        json_object_update(all, spec);
    json_decref(spec);
    clock_format(now, created);
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:{}}", "v", 1, "workspace_id", id, "owner",
                     "owner", "name", "test", "state", "creating", "created_at", created, "created_us",
                     (json_int_t)now, "spec", all, "tags");
}

static json_t *read_line(int fd)
{
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    ssize_t got;
    while ((got = read(fd, buffer_reserve(&text, 4096), 4096)) > 0) {
        text.length += (size_t)got;
        if (memchr(text.data, '\n', text.length) != NULL)
            break;
    }
    return json_loads(buffer_text(&text), JSON_DISABLE_EOF_CHECK, NULL);
}

static int spec_file(json_t *record)
{
    json_auto_t *spec =
        json_object_get(record, "record") != NULL ? record : json_pack("{s:o}", "record", record);
    int fd = memfd_create("spec", 0);
    ck_assert_int_eq(json_dumpfd(spec, fd, 0), 0);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

struct line house_keep(struct house *h, const char *id, json_t *record)
{
    struct line line = { 0 };
    int ends[2], spec_fd = record != NULL ? spec_file(record) : -1;
    char ready_text[16], spec_text[16];
    ck_assert_int_eq(pipe(ends), 0);
    int64_t begun = clock_boottime_us();
    line.pid = fork();
    if (line.pid == 0) {
        close(ends[0]);
        snprintf(ready_text, sizeof(ready_text), "%d", ends[1]);
        snprintf(spec_text, sizeof(spec_text), "%d", spec_fd);
        execl("/proc/self/exe", "test", "keep", id, "--state", h->dir, "--ready-fd", ready_text,
              spec_fd >= 0 ? "--spec-fd" : NULL, spec_text, NULL);
        _exit(127);
    }
    close(ends[1]);
    if (spec_fd >= 0)
        close(spec_fd);
    line.answer = read_line(ends[0]);
    line.ms = (double)(clock_boottime_us() - begun) / 1000;
    close(ends[0]);
    return line;
}

static pid_t warden_spawn(const struct house *h)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "test", "warden", "--state", h->dir, NULL);
        _exit(127);
    }
    return pid;
}

/* A warden ends itself while a child of one that was killed still holds the lock for a moment: then another
 * is started. */
pid_t house_start_warden(struct house *h)
{
    pid_t pid = warden_spawn(h);
    int64_t deadline = clock_boottime_ms() + 20000;
    while (clock_boottime_ms() < deadline) {
        struct talk *t = talk_open(h, "warden.sock");
        json_t *pong = t != NULL ? talk_ask(t, json_pack("{s:s}", "op", "ping")) : NULL;
        pid_t answered = (pid_t)json_integer_value(json_object_get(json_object_get(pong, "ret"), "pid"));
        json_decref(pong);
        talk_close(t);
        if (answered == pid)
            return pid;
        usleep(2000);
        if (waitpid(pid, NULL, WNOHANG) == pid)
            pid = warden_spawn(h);
    }
    ck_abort_msg("the warden does not answer");
    return -1;
}

int house_wait(pid_t pid, int timeout_ms)
{
    int64_t deadline = clock_boottime_ms() + timeout_ms;
    int status;
    do {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        usleep(1000);
    } while (clock_boottime_ms() < deadline);
    return -1;
}

json_t *house_stored(struct house *h, const char *id)
{
    json_t *record = NULL;
    return state_get_workspace(h->state, id, &record, NULL) == 0 ? record : NULL;
}

bool house_wait_state(struct house *h, const char *id, const char *state, int timeout_ms)
{
    int64_t deadline = clock_boottime_ms() + timeout_ms;
    do {
        json_auto_t *record = house_stored(h, id);
        const char *now = json_string_value(json_object_get(record, "state"));
        if (now != NULL ? strcmp(now, state) == 0 : strcmp(state, "gone") == 0)
            return true;
        usleep(2000);
    } while (clock_boottime_ms() < deadline);
    return false;
}
