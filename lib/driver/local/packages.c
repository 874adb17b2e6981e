/* Owns the cache of Python packages that workspaces share.
 *
 * Who may write it decides what others execute. So no workspace can: sandboxes have the folder bound
 * read-only, and what lies in it came by uv alone, run in a sandbox of its own that holds nothing else, over
 * TLS from the index that the operator chose, each file held against the index's hash. Of workspaces only
 * names and versions of packages are taken, as wishes; never a byte of a file. A cache that workspaces write
 * together would let one of them put code into all others, also with a user of its own each: uv does not
 * check again what lies in its cache.
 *
 * A workspace's own cache lies in its home, goes with it, and is writable to it alone. Its archives get links
 * to the shared ones, made inside by its own user (`wrapper`): no process of the gateway writes in there. A
 * link to a read-only mount cannot be written through; what is written in its place is the workspace's own.
 * Wheels alone are brought, so that no code of a package runs on the gateway's behalf. */
#include "lib/driver/local/packages.h"

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/process.h"
#include "lib/driver/local/bwrap.h"
#include "lib/driver/local/root.h"
#include "lib/driver/local/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BRING_MS 300000

/* clang-format off */
/* Where the stamp is another store's, or gone, links lead nowhere: the own cache begins anew. Archives come
 * before what names them. */
static const char wrapper[] =
    "#!/bin/sh\n"
    "# Links packages that the gateway has for all workspaces into this one's cache, where there are new ones.\n"
    "shared=" SANDBOX_PACKAGES " own=${UV_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/uv}\n"
    "take_over() {\n"
    "    mkdir -p \"$own\" && exec 9>\"$own/.shared.lock\" && flock -w 30 9 || return\n"
    "    [ \"${then%% *}\" = \"${now%% *}\" ] || [ -z \"$then\" ] ||\n"
    "        rm -rf \"$own\"/archive-v* \"$own\"/wheels-v* \"$own\"/simple-v* \"$own\"/environments-v*\n"
    "    [ -z \"$now\" ] || {\n"
    "        cp -rsn $shared/archive-v* \"$own\" && cp -rPn $shared/wheels-v* $shared/simple-v* \"$own\"\n"
    "    } 2>/dev/null\n"
    "    echo \"$now\" >\"$own/.shared\"\n"
    "    exec 9>&-\n"
    "}\n"
    "now= then=\n"
    "read -r now 2>/dev/null <$shared/stamp\n"
    "read -r then 2>/dev/null <\"$own/.shared\"\n"
    "[ \"$now\" = \"$then\" ] || take_over\n"
    "exec " SANDBOX_TOOLS "/\"${0##*/}\" \"$@\"\n";

/* The first run brings what a resolution without the index reads: of the package, and of what it depends on.
 * stamp: which store, how many packages came, MiB. It changes when all of them are whole. What could not be
 * brought is tried again an hour after it was refused, whatever was refused since: it may have been the
 * network. */
static const char bringer[] =
    "cd " SANDBOX_WORKSPACE " || exit 1\n"
    "limit=$1\n"
    "shift\n"
    "now=$(date +%s)\n"
    "[ ! -f refused ] || {\n"
    "    while read -r at package; do\n"
    "        case $at in '' | *[!0-9]*) continue ;; esac\n"
    "        [ \"$at\" -le $((now - 3600)) ] || echo \"$at $package\"\n"
    "    done <refused | tail -n 2000 >refused.new && mv refused.new refused\n"
    "}\n"
    "read -r id count size 2>/dev/null <stamp || {\n"
    "    id=$(od -An -N8 -tx8 /dev/urandom | tr -d ' ') count=0\n"
    "}\n"
    "[ -e born ] || : >born\n"
    "bring() {\n"
    "    " SANDBOX_TOOLS "/uv pip install -q --only-binary :all: --link-mode symlink --python /usr/bin/python3 --target /tmp/target \"$@\"\n"
    "}\n"
    "for package; do\n"
    "    [ \"$(du -sm . | cut -f1)\" -lt \"$limit\" ] || break\n"
    "    if (cd /tmp && { bring --dry-run \"$package\"; bring --no-deps \"$package\"; }); then\n"
    "        count=$((count + 1))\n"
    "    else\n"
    "        echo \"$(date +%s) $package\" >>refused\n"
    "    fi\n"
    "    rm -rf /tmp/target\n"
    "done\n"
    "chmod -R a+rX archive-v* wheels-v* simple-v*\n"
    "echo \"$id $count $(du -sm . | cut -f1)\" >stamp.new && mv stamp.new stamp\n";
/* clang-format on */

bool packages_are_shared(const struct config *config)
{
    struct stat status;
    _cleanup_free_ char *uv = config_path(config, "tools", "uv");
    return config->shared_packages_mib > 0 && !stat(uv, &status);
}

int packages_describe(struct vector *v, struct error *err)
{
    vector_add(v, "--symlink", "uv", SANDBOX_NAMES "/uvx", NULL);
    return vector_add_program(v, wrapper, SANDBOX_NAMES "/uv", err);
}

/* ---- bringing ---- */

/* Nobody else's: the number after those of workspaces; without such numbers the state directory's owner. */
static int find_uid(const struct config *config, uid_t *ret, struct error *err)
{
    int64_t after = config->uid_base + config->uid_count;
    _cleanup_owner_ struct owner owner = { 0 };
    *ret = geteuid() == 0 && config->uid_count > 0 && after < UINT32_MAX ? (uid_t)after : 0;
    if (geteuid() != 0 || *ret != 0)
        return 0;
    if (config_find_owner(config, &owner, err) < 0)
        return -1;
    *ret = owner.uid;
    return owner.uid != 0 ? 0 : error_set(err, ERROR_DRIVER, "packages are not brought as root");
}

static int make_folder(const char *path, uid_t uid, struct error *err)
{
    if (io_ensure_directory(path, 0755, err) < 0)
        return -1;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (uid != 0 && fchown(fd, uid, uid) < 0) || fchmod(fd, 0755) < 0)
        return error_errno(err, ERROR_DRIVER, errno, "cannot make the folder of shared packages");
    return 0;
}

/* What the operator passes to workspaces holds here too: it says where the index is. */
static void describe_environment(const struct config *config, struct vector *v)
{
    const char *name;
    json_t *value;
    json_auto_t *passed = config_passed_variables(config);
    json_object_foreach(passed, name, value)
        vector_add(v, "--setenv", name, json_string_value(value), NULL);
    vector_add(v, "--setenv", "UV_CACHE_DIR", SANDBOX_WORKSPACE, "--setenv", "UV_SYSTEM_CERTS", "1",
               "--setenv", "UV_NO_CONFIG", "1", NULL);
}

enum { FD_NULL, FD_OUTPUT, FD_ERROR, FD_SECCOMP, FD_ARGUMENTS, FDS };

/* ret_output: our end of what it says. */
static int open_descriptors(struct vector *v, int *ret_output, struct error *err)
{
    int pair[2];
    vector_add_fd(v, open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK))
        return error_errno(err, ERROR_DRIVER, errno, "cannot make a pipe");
    *ret_output = pair[0];
    vector_add_fd(v, pair[1]);
    vector_add_fd(v, fcntl(pair[1], F_DUPFD_CLOEXEC, 3));
    int filter = seccomp_program(err);
    if (filter < 0)
        return -1;
    vector_add_fd(v, filter);
    vector_add_fd(v, fcntl(v->fds[FD_NULL], F_DUPFD_CLOEXEC, 3)); /* the arguments, once they are known */
    return 0;
}

static int wait_for(int pidfd, struct error *err)
{
    siginfo_t info = { 0 };
    if (process_pidfd_wait(pidfd, BRING_MS) != 1) {
        process_pidfd_signal(pidfd, SIGKILL); /* all of the sandbox dies with it */
        process_pidfd_wait(pidfd, 5000);
        waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG);
        return error_set(err, ERROR_TIMEOUT, "bringing shared packages took too long");
    }
    waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG);
    bool fine = info.si_code == CLD_EXITED && info.si_status == 0;
    return fine ? 0 : error_set(err, ERROR_DRIVER, "bringing shared packages failed");
}

static char **make_argv(const char *limit, const char *const *packages, size_t count)
{
    const char *const head[] = { "bwrap", "--args", "4", "--", "/bin/sh", "-c", bringer, "sh", limit };
    char **argv = xcalloc(N_ELEMENTS(head) + count + 1, sizeof(*argv));
    memcpy(argv, head, sizeof(head));
    memcpy(argv + N_ELEMENTS(head), packages, count * sizeof(*packages));
    return argv;
}

static int run(uid_t uid, const struct spawn_view *views, size_t n_views, const struct vector *v,
               char *const *argv, struct error *err)
{
    pid_t pid;
    _cleanup_close_ int pidfd = -1;
    _cleanup_free_ char *program = bwrap_find_program(err);
    const struct spawn s = { .program = program,
                             .argv = argv,
                             .uid = uid,
                             .views = views,
                             .n_views = n_views,
                             .fds = v->fds,
                             .n_fds = v->n_fds,
                             .cgroup_fd = -1 };
    return program && !spawn_run(&s, &pid, &pidfd, err) ? wait_for(pidfd, err) : -1;
}

static void tell(int output)
{
    char text[512];
    ssize_t length = output < 0 ? 0 : read(output, text, sizeof(text) - 1);
    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (*text)
        log_info("shared packages: %s", text);
}

/* What is bound into the sandbox, from outside. */
struct places {
    uid_t uid; /* 0 = as the caller */
    char *folder, *tools;
};

static void places_clear(struct places *p)
{
    free(p->folder);
    free(p->tools);
}

static int find_places(const struct config *config, struct places *ret, struct error *err)
{
    ret->folder = config_path(config, PACKAGES_FOLDER, NULL);
    ret->tools = tools_folder(config);
    return find_uid(config, &ret->uid, err) < 0 ? -1 : make_folder(ret->folder, ret->uid, err);
}

static int bring(const struct config *config, const struct places *p, char *const *argv, struct vector *v,
                 struct error *err)
{
    const struct spawn_view views[] = { { p->folder, SPAWN_VIEW "files" }, { p->tools, SPAWN_VIEW "tools" } };
    bool viewed = p->uid && spawn_is_privileged();
    struct root root = { .files = viewed ? views[0].target : p->folder,
                         .tools = viewed ? views[1].target : p->tools,
                         .hostname = "packages",
                         .tmp_mib = 1024,
                         .shm_mib = 64 };
    bwrap_describe_isolation(false, root.hostname, v);
    describe_environment(config, v);
    vector_add(v, "--seccomp", "3", NULL);
    if (root_describe(&root, v, err) || vector_seal(v, FD_ARGUMENTS, err))
        return -1;
    return run(p->uid, views, viewed ? N_ELEMENTS(views) : 0, v, argv, err);
}

int packages_bring(const struct config *config, const char *const *packages, size_t count, struct error *err)
{
    char limit[24];
    _cleanup_close_ int output = -1;
    _cleanup_vector_ struct vector v = { .arguments = BUFFER_INIT };
    __attribute__((cleanup(places_clear))) struct places places = { 0 };
    if (!packages_are_shared(config))
        return error_set(err, ERROR_UNSUPPORTED, "there is no uv");
    if (find_places(config, &places, err) < 0 || open_descriptors(&v, &output, err) < 0)
        return -1;
    snprintf(limit, sizeof(limit), "%lld", (long long)config->shared_packages_mib);
    _cleanup_free_ char **argv = make_argv(limit, packages, count);
    int result = bring(config, &places, argv, &v, err);
    tell(output);
    return result;
}
