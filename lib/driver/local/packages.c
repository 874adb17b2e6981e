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

/* A batch begins with no package after SLICE_S, and ends by itself after that and one package's time. What it
 * does besides, measuring and giving leave to read, has SPARE_S. */
#define SLICE_S 10
#define SPARE_S 60

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
 * network. Whose time was over is refused too, and the last of its batch, so that others' turn comes; uv leaves
 * what it wrote until then. Each one that is tried is a byte of the output. What a package takes is measured
 * by its links: measuring all there is would take longer than most packages do. */
static const char bringer[] =
    "exec 3>&1 1>&2\n"
    "cd " SANDBOX_WORKSPACE " || exit 1\n"
    "limit=$(($1 * 1024)) each=$2 slice=$3\n"
    "shift 3\n"
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
    "bring='\n"
    "    bring() {\n"
    "        " SANDBOX_TOOLS "/uv pip install -q --only-binary :all: --link-mode symlink --python /usr/bin/python3 --target /tmp/target \"$@\"\n"
    "    }\n"
    "    cd /tmp && { bring --dry-run \"$1\"; bring --no-deps \"$1\"; }'\n"
    "measure() {\n"
    "    kib=$(du -sk \"$@\" 2>/dev/null)\n"
    "    kib=${kib%%[!0-9]*} kib=${kib:-0}\n"
    "}\n"
    "seconds() {\n"
    "    read -r up idle </proc/uptime\n"
    "    up=${up%.*}\n"
    "}\n"
    "measure . && size=$kib\n"
    "seconds && end=$((up + slice))\n"
    "for package; do\n"
    "    seconds\n"
    "    [ \"$size\" -lt \"$limit\" ] && [ \"$up\" -lt \"$end\" ] || break\n"
    "    printf . >&3\n"
    "    timeout -k 5 \"$each\" /bin/sh -c \"$bring\" sh \"$package\" 3>&-\n"
    "    status=$?\n"
    "    if [ $status = 0 ]; then\n"
    "        measure -L /tmp/target\n"
    "        size=$((size + kib)) count=$((count + 1))\n"
    "    else\n"
    "        echo \"$(date +%s) $package\" >>refused\n"
    "    fi\n"
    "    rm -rf /tmp/target\n"
    "    [ $status -lt 124 ] || {\n"
    "        rm -rf .tmp* ./*/.tmp*\n"
    "        echo \"$package took longer than $each s\" >&2\n"
    "        break\n"
    "    }\n"
    "done\n"
    "chmod -R a+rX archive-v* wheels-v* simple-v*\n"
    "measure .\n"
    "echo \"$id $count $(((kib + 1023) / 1024))\" >stamp.new && mv stamp.new stamp\n";
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

static int open_pipe(struct vector *v, int *ret, struct error *err)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC | O_NONBLOCK))
        return error_errno(err, ERROR_DRIVER, errno, "cannot make a pipe");
    *ret = pair[0];
    vector_add_fd(v, pair[1]);
    return 0;
}

/* ret_tried, ret_said: our ends. */
static int open_descriptors(struct vector *v, int *ret_tried, int *ret_said, struct error *err)
{
    vector_add_fd(v, open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (open_pipe(v, ret_tried, err) < 0 || open_pipe(v, ret_said, err) < 0)
        return -1;
    int filter = seccomp_program(err);
    if (filter < 0)
        return -1;
    vector_add_fd(v, filter);
    vector_add_fd(v, fcntl(v->fds[FD_NULL], F_DUPFD_CLOEXEC, 3)); /* the arguments, once they are known */
    return 0;
}

static int wait_for(int pidfd, int timeout_ms, struct error *err)
{
    siginfo_t info = { 0 };
    if (process_pidfd_wait(pidfd, timeout_ms) != 1) {
        process_pidfd_signal(pidfd, SIGKILL); /* all of the sandbox dies with it */
        process_pidfd_wait(pidfd, 5000);
        waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG);
        return error_set(err, ERROR_TIMEOUT, "bringing shared packages took too long");
    }
    waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG);
    bool fine = info.si_code == CLD_EXITED && info.si_status == 0;
    return fine ? 0 : error_set(err, ERROR_DRIVER, "bringing shared packages failed");
}

static char **make_argv(const char *const numbers[static 3], const char *const *packages, size_t count)
{
    const char *const head[] = { "bwrap", "--args", "4",        "--",       "/bin/sh", "-c",
                                 bringer, "sh",     numbers[0], numbers[1], numbers[2] };
    char **argv = xcalloc(N_ELEMENTS(head) + count + 1, sizeof(*argv));
    memcpy(argv, head, sizeof(head));
    memcpy(argv + N_ELEMENTS(head), packages, count * sizeof(*packages));
    return argv;
}

static int run(const struct config *config, uid_t uid, const struct spawn_view *views, size_t n_views,
               const struct vector *v, char *const *argv, struct error *err)
{
    int timeout_ms = ((int)config->shared_packages_seconds + SLICE_S + SPARE_S) * 1000;
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
    return program && !spawn_run(&s, &pid, &pidfd, err) ? wait_for(pidfd, timeout_ms, err) : -1;
}

static void tell(int said)
{
    char text[512];
    ssize_t length = read(said, text, sizeof(text) - 1);
    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (*text)
        log_info("shared packages: %s", text);
}

/* Of so many. */
static size_t count_tried(int tried, size_t count)
{
    char bytes[64];
    size_t sum = 0;
    for (ssize_t length; sum < count && (length = read(tried, bytes, sizeof(bytes))) > 0;)
        sum += (size_t)length;
    return sum < count ? sum : count;
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
    return run(config, p->uid, views, viewed ? N_ELEMENTS(views) : 0, v, argv, err);
}

int packages_bring(const struct config *config, const char *const *packages, size_t count, size_t *ret_tried,
                   struct error *err)
{
    char mib[24], each[24], slice[12];
    const char *const numbers[] = { mib, each, slice };
    _cleanup_close_ int tried = -1, said = -1;
    _cleanup_vector_ struct vector v = { .arguments = BUFFER_INIT };
    __attribute__((cleanup(places_clear))) struct places places = { 0 };
    *ret_tried = 0;
    if (!packages_are_shared(config))
        return error_set(err, ERROR_UNSUPPORTED, "there is no uv");
    if (find_places(config, &places, err) < 0 || open_descriptors(&v, &tried, &said, err) < 0)
        return -1;
    snprintf(mib, sizeof(mib), "%lld", (long long)config->shared_packages_mib);
    snprintf(each, sizeof(each), "%lld", (long long)config->shared_packages_seconds);
    snprintf(slice, sizeof(slice), "%d", SLICE_S);
    _cleanup_free_ char **argv = make_argv(numbers, packages, count);
    int result = bring(config, &places, argv, &v, err);
    *ret_tried = count_tried(tried, count);
    tell(said);
    return result;
}
