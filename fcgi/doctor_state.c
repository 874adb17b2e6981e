/* What `doctor` says about the state directory: who owns it, who reaches it, what room it has, the warden and
 * the stores. It changes nothing that lasts. */
#include "fcgi/doctor.h"

#include "fcgi/reach.h"
#include "fcgi/state_directory.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/store/events.h"
#include "lib/store/state.h"
#include "lib/warden/warden.h"

#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum { SOCKET_PATH_LONGEST = 107 }; /* unix(7) */

/* ---- whose it is ---- */

void doctor_user(const struct config *config, struct finding *f)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_owner_ struct owner owner = { 0 };
    if (geteuid() != 0)
        doctor_say(f, LEVEL_OK, NULL, "all run as uid %u; sandboxes are told apart by namespaces alone",
                   (unsigned)geteuid());
    else if (config_find_owner(config, &owner, &err) < 0)
        doctor_say(f, LEVEL_FAIL, "set WORKSPACE_USER to a user of this host", "%s", err.message);
    else if (config->uid_count == 0)
        doctor_say(f, LEVEL_WARN, "set WORKSPACE_UID_COUNT to 65536",
                   "started as root, but workspaces share one uid");
    else
        doctor_say(f, LEVEL_OK, NULL,
                   "started as root: workers become %s (uid %u), workspaces get uids from %lld to %lld",
                   owner.name ? owner.name : "a user without name", (unsigned)owner.uid,
                   (long long)config->uid_base, (long long)(config->uid_base + config->uid_count - 1));
}

void doctor_state_directory(const struct config *config, struct finding *f)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct stat status;
    char cure[400];
    if (state_directory_check(config, &err) < 0) {
        if (err.code == ERROR_NOT_FOUND)
            doctor_say(f, LEVEL_WARN, NULL,
                       "there is none yet at %.300s: run, serve, warden or token add make it",
                       config->state_dir);
        else
            doctor_say_error(f, LEVEL_FAIL, &err);
        return;
    }
    if (stat(config->state_dir, &status) < 0)
        return;
    snprintf(cure, sizeof cure, "chmod o-rwx '%.300s'", config->state_dir);
    bool unused = status.st_uid == 0 && geteuid() == 0;
    if (status.st_mode & 0007 && !unused)
        doctor_say(f, LEVEL_FAIL, cure, "%.300s is open to every user (mode %04o)", config->state_dir,
                   status.st_mode & 07777);
    else
        doctor_say(f, LEVEL_OK, NULL, "%.300s, owner uid %u, mode %04o%s", config->state_dir,
                   (unsigned)status.st_uid, status.st_mode & 07777,
                   unused && strcmp(config->user, "root") != 0
                       ? "; the first start gives it to the workers' user"
                       : "");
}

/* ---- where it lies ---- */

void doctor_folders_above(const struct config *config, struct finding *f)
{
    _cleanup_owner_ struct owner owner = { 0 };
    char cure[400];
    bool root = geteuid() == 0;
    if (root && config_find_owner(config, &owner, NULL) < 0) {
        doctor_say(f, LEVEL_WARN, NULL, "not known without the workers' user");
        return;
    }
    _cleanup_free_ char *shut =
        root ? reach_find_shut(&owner, config->state_dir) : reach_shut_part(config->state_dir);
    if (!shut) {
        doctor_say(f, LEVEL_OK, NULL, "none is closed to the workers' user");
        return;
    }
    snprintf(cure, sizeof cure,
             "chmod o+x '%.200s', or choose another place: --state /var/lib/workspace-fcgi", shut);
    doctor_say(f, root ? LEVEL_WARN : LEVEL_FAIL, cure, "%.200s is closed to %s%s", shut,
               root && owner.name ? owner.name : "this user",
               root
                   ? ": run and serve open a way for themselves alone, another web server does not reach the "
                     "socket"
                   : "");
}

void doctor_path_length(const struct config *config, struct finding *f)
{
    size_t length = strlen(config->state_dir) + strlen("/fcgi.sock");
    if (length > SOCKET_PATH_LONGEST)
        doctor_say(f, LEVEL_FAIL, "choose a shorter state directory, or serve --socket PATH",
                   "the path of fcgi.sock has %zu bytes, a web server reaches %d", length,
                   SOCKET_PATH_LONGEST);
    else
        doctor_say(f, LEVEL_OK, NULL, "the path of fcgi.sock has %zu bytes", length);
}

void doctor_space(const struct config *config, struct finding *f)
{
    struct statvfs space;
    if (statvfs(config->state_dir, &space)) {
        doctor_say(f, LEVEL_WARN, NULL, "not known before the state directory exists");
        return;
    }
    double mib = (double)space.f_bavail * (double)space.f_frsize / (1 << 20);
    /* A file system that counts no inodes says 0 of 0. */
    bool counted = space.f_files > 0;
    enum level level = mib < 100 || (counted && space.f_favail < 1000)     ? LEVEL_FAIL
                       : mib < 2048 || (counted && space.f_favail < 50000) ? LEVEL_WARN
                                                                           : LEVEL_OK;
    doctor_say(f, level, level ? "free space or inodes, or move WORKSPACE_STATE_DIR" : NULL,
               "%.1f GiB and %llu inodes free%s", mib / 1024, (unsigned long long)space.f_favail,
               space.f_flag & ST_RDONLY ? ", but mounted read-only" : "");
}

/* ---- the warden ---- */

static bool answers(const struct config *config)
{
    char hello[4];
    _cleanup_free_ char *path = config_path(config, "run/warden.sock", NULL);
    _cleanup_close_ int fd = io_connect_unix(path, NULL);
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    return fd >= 0 && poll(&wait, 1, 3000) == 1 && read(fd, hello, sizeof hello) > 0;
}

void doctor_warden(const struct config *config, struct finding *f)
{
    struct warden_seen seen;
    char cure[100];
    if (!warden_look(config, &seen)) {
        doctor_say(f, LEVEL_WARN, NULL, "none runs: run and serve start one, and a call that needs one");
        return;
    }
    snprintf(cure, sizeof cure, "kill %d; the next request starts another", (int)seen.pid);
    if (!answers(config))
        doctor_say(f, LEVEL_FAIL, cure, "pid %d, uid %u, does not answer", (int)seen.pid, (unsigned)seen.uid);
    else if (geteuid() == 0 && seen.uid != 0)
        doctor_say(
            f, LEVEL_FAIL, "start run, serve or warden as root: it takes its place",
            "pid %d runs as uid %u and not as root: workspaces have no uid of their own, their limits are "
            "only watched",
            (int)seen.pid, (unsigned)seen.uid);
    else
        doctor_say(f, LEVEL_OK, NULL, "pid %d, uid %u, runs and answers%s", (int)seen.pid, (unsigned)seen.uid,
                   seen.spare ? "; with the settings of the serve or call that started it" : "");
}

/* ---- stores ---- */

static bool verify_logs(const struct config *config, const json_t *workspaces, struct finding *f,
                        size_t *ret_checked)
{
    int64_t deadline = clock_boottime_ms() + 20000;
    struct events_cache *cache = events_cache_new(config->state_dir, 4);
    bool good = true;
    size_t i;
    json_t *record;
    json_array_foreach(workspaces, i, record) {
        _cleanup_error_ struct error err = ERROR_INIT;
        const char *id = json_string_value(json_object_get(record, "workspace_id"));
        if (!id || clock_boottime_ms() > deadline)
            break;
        struct events_reader *reader = events_cache_get(cache, id, &err);
        if (reader && events_verify(reader, &err)) {
            doctor_say(
                f, LEVEL_FAIL,
                "stop the workspace: its next start sets a log aside that cannot be walked; a single wrong "
                "event costs its own command alone; nothing else is touched",
                "the log of %s is damaged: %s", id, err.message);
            good = false;
        }
        *ret_checked += reader != NULL;
    }
    events_cache_free(cache);
    return good;
}

/* Which tokens count; NULL = none. */
static const char *tokens_of(const struct config *config, struct state *state, bool run_has_one)
{
    if (*config->token)
        return "the owner's token stands in the settings";
    if (run_has_one)
        return "run takes the owner's token from the file `token` (serve takes WORKSPACE_TOKEN)";
    return state_count_tokens(state, NULL) > 0 ? "there are tokens made by token add" : NULL;
}

static void look_into(const struct config *config, struct state *state, bool run_has_one, struct finding *f)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *workspaces = NULL;
    size_t checked = 0;
    if (state_list_workspaces(state, NULL, NULL, 1000000, &workspaces, &err) < 0) {
        doctor_say_error(f, LEVEL_FAIL, &err);
        return;
    }
    if (!verify_logs(config, workspaces, f, &checked))
        return;
    const char *tokens = tokens_of(config, state, run_has_one);
    doctor_say(f, tokens ? LEVEL_OK : LEVEL_WARN,
               tokens ? NULL : "set WORKSPACE_TOKEN, or: workspace-fcgi token add NAME",
               "%zu workspaces, %zu logs verified; %s", json_array_size(workspaces), checked,
               tokens ? tokens : "no token is configured: every request gets 503");
}

void doctor_store(const struct config *config, struct finding *f)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *path = config_path(config, "state/data.mdb", NULL),
                        *token = config_path(config, "token", NULL);
    bool run_has_one = access(token, F_OK) == 0;
    if (access(path, F_OK)) {
        doctor_say(f, LEVEL_WARN, NULL, "there is none yet: the first start makes it");
        return;
    }
    struct state *state =
        state_directory_enter(config, false, &err) < 0 ? NULL : state_open(config->state_dir, &err);
    if (state)
        look_into(config, state, run_has_one, f);
    else
        doctor_say_error(f, LEVEL_FAIL, &err);
    if (state)
        state_close(state);
}
