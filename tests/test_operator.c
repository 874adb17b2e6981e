/* The commands as an operator types them: help, refusals that name path and cure, what is made and what is
 * not, and which warden runs afterwards. */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/process.h"
#include "tests/support/instance.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define AS_USER "setpriv --reuid www-data --regid www-data --clear-groups "

static char output[32768], state[128];

static void setup(void)
{
    scratch_make();
    ck_assert_int_eq(chmod(scratch, 0755), 0);
    snprintf(state, sizeof state, "%s/state", scratch);
    setenv("W", build_path("workspace-fcgi"), 1);
    setenv("S", state, 1);
    unsetenv("WORKSPACE_TOKEN");
}

/* Ends what a test started: everything with this state directory in its command line. */
static void teardown(void)
{
    setenv("D", scratch, 1);
    ck_assert_int_eq(system("kill $(pgrep -f -- \"--state $D\") 2>/dev/null; sleep 0.2; :"), 0);
    scratch_remove();
}

/* Exit status of a shell line; both its outputs are in output. $W is the program, $S the state directory. */
static int sh(const char *format, ...) PRINTF_LIKE(1, 2);
static int sh(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    _cleanup_free_ char *line = NULL;
    ck_assert_int_ge(vasprintf(&line, format, list), 0);
    va_end(list);
    _cleanup_free_ char *whole = xasprintf("exec 2>&1; %s", line);
    FILE *pipe = popen(whole, "r");
    size_t length = fread(output, 1, sizeof output - 1, pipe);
    output[length] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

static void check_said(const char *text)
{
    ck_assert_msg(strstr(output, text) != NULL, "'%s' is not in: %s", text, output);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool is_root(void)
{
    return geteuid() == 0;
}

/* ---- help ---- */

START_TEST(each_subcommand_has_help)
{
    static const char *const names[] = { "serve", "run",      "warden", "keep",
                                         "call",  "describe", "doctor", "token" };
    char usage[64];
    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        snprintf(usage, sizeof usage, "usage: workspace-fcgi %s", names[i]);
        ck_assert_int_eq(sh("$W %s --help --state $S", names[i]), 0);
        check_said(usage);
        ck_assert_int_eq(sh("WORKSPACE_WORKERS=nonsense $W %s -h", names[i]), 0);
        ck_assert_int_eq(sh("$W --help"), 0);
        check_said(names[i]);
    }
    ck_assert_int_eq(sh("$W --version"), 0);
    check_said("workspace-fcgi 0.");
    ck_assert_int_eq(sh("$W call --help"), 0);
    check_said("createRemoteWorkspace");
    ck_assert(!exists(state));
}
END_TEST

START_TEST(wrong_use_shows_the_usage)
{
    static const struct {
        const char *line;
        bool last_is_unknown; /* its last word */
    } lines[] = {
        { "serve more", true },
        { "run more", true },
        { "warden more", true },
        { "keep nothing", true },
        { "keep", false },
        { "call", false },
        { "call a b c", true },
        { "describe", false },
        { "describe nothing", true },
        { "describe config more", true },
        { "doctor --yaml", true },
        { "doctor --json more", true },
        { "tools", false },
        { "tools more", true },
        { "tools add", false },
        { "tools list more", true },
        { "token", false },
        { "token more", true },
        { "token add", false },
        { "token add a b", true },
        { "token list more", true },
        { "token revoke", false },
        { "token revoke a b", true },
        { "serve --bogus", false },
        { "token add x --scope y", false },
        { "warden --chore", true },
    };
    for (size_t i = 0; i < N_ELEMENTS(lines); i++) {
        ck_assert_msg(sh("$W %s --state $S", lines[i].line) == 2, "%s: %s", lines[i].line, output);
        check_said("usage: workspace-fcgi ");
        const char *word = strrchr(lines[i].line, ' ');
        _cleanup_free_ char *named = xasprintf("'%s' is unknown here", word ? word + 1 : "");
        if (lines[i].last_is_unknown)
            check_said(named);
        ck_assert_msg(strncmp(output, "usage:", 6) != 0, "%s does not say what is wrong: %s", lines[i].line,
                      output);
    }
    ck_assert_int_eq(sh("$W bogus"), 2);
    check_said("there is no subcommand bogus");
    ck_assert_int_eq(sh("$W call bogus --state $S"), 2);
    check_said("there is no operation bogus");
    ck_assert(!exists(state));
}
END_TEST

START_TEST(tools_add_says_who_sees_it)
{
    ck_assert_int_eq(sh("$W tools add --new /bin/true --state $S"), 0);
    check_said("true added to ");
    check_said("workspaces that run now see it after a stop and a start");
    ck_assert_int_eq(sh("$W tools add /bin/true /bin/false --state $S"), 0);
    check_said("true is already in ");
    check_said("false added to ");
    check_said("every workspace sees it at once");
}
END_TEST

/* Which of it is there already is told by its content and by who may run it, not by its name. */
START_TEST(tools_add_brings_what_changed)
{
    ck_assert_int_eq(sh("$W tools add --new /bin/true --state $S"), 0);
    ck_assert_int_eq(sh("mkdir $S.new && cp /bin/false $S.new/true && $W tools add $S.new/true --state $S && "
                        "cmp $S/tools/true /bin/false"),
                     0);
    check_said("true added to ");
    ck_assert_int_eq(sh("chmod 700 $S/tools/true && $W tools add $S.new/true --state $S && "
                        "test $(stat -c %%a $S/tools/true) = 755 && rm -r $S.new"),
                     0);
    check_said("true added to ");
    ck_assert_int_eq(sh("cp /bin/true $S.file && chmod 644 $S.file && $W tools add $S.file --state $S && "
                        "test $(stat -c %%a $S/tools/state.file) = 755 && rm $S.file"),
                     0);
    check_said("(mode 0755): the file given may not be executed");
}
END_TEST

/* Programs of the repository that install put somewhere go again; an operator's settings stay, and it is
 * said. */
START_TEST(uninstall_says_what_stays)
{
    char folder[200];
    snprintf(folder, sizeof folder, "%s/etc/workspace-fcgi", scratch);
    ck_assert_int_eq(
        sh("mkdir -p %s && touch %s/workspace-fcgi.conf && make uninstall DESTDIR=%s PREFIX=/usr", folder,
           folder, scratch),
        0);
    check_said("stays: it holds settings");
    check_said("(workspace-fcgi.conf)");
    ck_assert_ptr_null(strstr(output, "rror"));
    ck_assert_int_eq(sh("rm %s/* && make uninstall DESTDIR=%s PREFIX=/usr", folder, scratch), 0);
    ck_assert(!exists(folder));
}
END_TEST

/* Who reads the output of what is ended is not kept by what lives on: warden and keepers of serve, keepers of
 * a warden whose log goes to a file. */
START_TEST(who_lives_on_holds_no_output)
{
    static const struct {
        const char *daemon, *log;
    } cases[] = {
        { "serve", "$S/run/warden.log" },
        { "serve --set WORKSPACE_LOG_FILE=$S.log", "$S.log" },
        { "warden --set WORKSPACE_LOG_FILE=$S.log", "$S.log" },
    };
    ck_assert_int_eq(sh("$W token add x --state $S"), 0);
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        _cleanup_free_ char *work =
            xasprintf("$W %s --state $S & until grep -qs watching.over %s; do sleep 0.05; done; "
                      "$W call createRemoteWorkspace --state $S; kill $!; wait",
                      cases[i].daemon, cases[i].log);
        ck_assert_msg(sh("timeout 20 sh -c '(%s) 2>&1 | cat'", work) == 0, "%s: %s", cases[i].daemon, output);
        check_said("\"running\":true");
        if (i == 0)
            check_said("a warden was started; its messages: ");
        ck_assert_int_eq(sh("pgrep -c -f \"keep ws-.*--state $S\""), 0);
        ck_assert_msg(sh("grep -q 'INFO keep' %s", cases[i].log) == 0, "%s does not log to %s",
                      cases[i].daemon, cases[i].log);
        ck_assert_int_eq(sh("rm -f $S.log"), 0);
    }
}
END_TEST

/* What serve and its warden wrote to a socket, in output. journal: it is the journal's. */
static void serve_on_a_socket(bool journal)
{
    char stream[64];
    struct stat st;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ck_assert_int_eq(fstat(ends[1], &st), 0);
    snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino + !journal);
    setenv("JOURNAL_STREAM", stream, 1);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", "exec timeout 2 $W serve --state $S", NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
    ssize_t got = recv(ends[0], output, sizeof output - 1, MSG_DONTWAIT);
    output[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
    unsetenv("JOURNAL_STREAM");
}

START_TEST(the_journal_gets_the_wardens_messages)
{
    serve_on_a_socket(false);
    check_said("a warden was started; its messages: ");
    ck_assert_ptr_null(strstr(output, "watching over"));
    serve_on_a_socket(true);
    check_said("watching over");
    ck_assert_ptr_null(strstr(output, "its messages: "));
}
END_TEST

/* For lighttpd, which spools what comes up. */
START_TEST(serve_makes_the_folder_of_uploads)
{
    ck_assert_int_eq(sh("timeout 1 $W serve --state $S; test $(stat -c %%a $S/uploads) = 700"), 0);
}
END_TEST

START_TEST(call_lists_what_it_can_do)
{
    ck_assert_int_eq(
        sh("$W token add x --state $S && ws=$($W call createRemoteWorkspace --state $S 2>/dev/null | "
           "grep -o 'ws-[0-9a-f]*' | head -1) && $W call downloadWorkspaceFile "
           "\"{\\\"workspace_id\\\":\\\"$ws\\\",\\\"path\\\":\\\"f\\\"}\" --state $S"),
        1);
    check_said("/raw?path=FILE");
    ck_assert_int_eq(sh("$W call --help"), 0);
    ck_assert_ptr_null(strstr(output, "downloadWorkspaceFile"));
    ck_assert_ptr_null(strstr(output, "inspectWorkspaceFile"));
    ck_assert_ptr_null(strstr(output, "uploadWorkspaceFile"));
}
END_TEST

/* Whatever else is given: nothing is run, and nothing needs to be there. */
START_TEST(call_shows_an_operation)
{
    static const char *const lines[] = { "call getRealtimeWorkspaceExecEvents --help",
                                         "call --help workspace_realtime_exec_events",
                                         "call getRealtimeWorkspaceExecEvents '{\"cursor\": 1}' -h" };
    for (size_t i = 0; i < N_ELEMENTS(lines); i++) {
        ck_assert_int_eq(sh("WORKSPACE_WORKERS=nonsense $W %s --state $S", lines[i]), 0);
        check_said("Read what a command wrote after a cursor");
        check_said("\n  exec_id  string, required; must be ex- and 32 lowercase hex digits\n");
        check_said("\n  wait_seconds  number from 0 to 30 (more is taken as that), default 0\n");
        check_said(
            i == 1
                ? "\n  workspace-fcgi call workspace_realtime_exec_events '{\"workspace_id\": \"ws-...\", "
                : "\n  workspace-fcgi call getRealtimeWorkspaceExecEvents '{\"workspace_id\": \"ws-...\", ");
    }
    ck_assert_int_eq(sh("$W call bogus --help"), 2);
    check_said("there is no operation bogus");
    ck_assert(!exists(state));
}
END_TEST

/* ---- settings ---- */

START_TEST(wrong_settings_are_refused_at_once)
{
    static const struct {
        int status;
        const char *line, *said;
    } cases[] = {
        { 1, "PORT=0 $W run", "PORT must be from 1 to 65535" },
        { 1, "PORT=65536 $W run", "PORT must be from 1 to 65535" },
        { 1, "PORT=http $W run", "not 'http'" },
        { 1, "WORKERS=0 $W run", "WORKERS must be from 1 to 64" },
        { 1, "WORKERS=65 $W run", "WORKERS must be from 1 to 64" },
        { 1, "WORKERS=two $W run", "WORKERS is not a whole number" },
        { 1, "TOKEN=fifteen-letters $W run", "TOKEN must have at least 16 characters" },
        { 1, "TOKEN='sixteen letters and spaces' $W run", "TOKEN must be printable ASCII" },
        { 1, "TOKEN=sixteen-lettres-àé $W run", "TOKEN must be printable ASCII" },
        { 2, "WORKSPACE_TOKEN=short $W serve", "WORKSPACE_TOKEN must have at least 16 characters" },
        { 2, "$W serve --workers 65", "WORKSPACE_WORKERS must be from 1 to 64" },
        { 2, "$W serve --set WORKSPACE_DRIVER=foo", "there is no driver foo; there is: local" },
        { 2, "$W warden --set WORKSPACE_DRIVER=foo", "there is no driver foo" },
        { 2, "$W call listRemoteWorkspaces --set WORKSPACE_DRIVER=foo", "there is no driver foo" },
        { 2, "$W doctor --set WORKSPACE_DRIVER=foo", "there is no driver foo" },
        { 2, "$W serve --config /nowhere/at/all", "/nowhere/at/all" },
        { 1, "$W serve --socket :9000", "--socket takes the path of a UNIX socket, not ':9000'" },
        { 1, "$W serve --socket localhost:9000", "not 'localhost:9000'" },
        { 1, "$W serve --socket ''", "not ''" },
        { 1, "S=$S/$(printf 'x%.0s' $(seq 90)); $W run", "107 are the most" },
        { 1, "S=$S/$(printf 'x%.0s' $(seq 90)); $W serve", "107 are the most" },
    };
    for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
        _cleanup_free_ char *line = xasprintf("%s --state $S", cases[i].line);
        int status = sh("%s", line);
        ck_assert_msg(status == cases[i].status, "%s: %d %s", line, status, output);
        check_said(cases[i].said);
        ck_assert_msg(!exists(state), "%s made the state directory", line);
    }
}
END_TEST

START_TEST(a_settings_file_that_cannot_be_read_is_named)
{
    char path[128];
    if (!is_root())
        return;
    snprintf(path, sizeof path, "%s/settings", scratch);
    ck_assert_int_eq(io_replace_file(AT_FDCWD, path, "", 0, 0600, NULL), 0);
    ck_assert_int_eq(sh(AS_USER "$W serve --state $S --config %s", path), 2);
    check_said(path);
    check_said("of uid 0, mode 0600");
}
END_TEST

START_TEST(a_busy_socket_is_named)
{
    char lock[160], said[200];
    int fd = -1;
    ck_assert_int_eq(sh("$W token add x --state $S"), 0);
    snprintf(lock, sizeof lock, "%s/fcgi.sock.lock", state);
    ck_assert_int_eq(io_lock_file(lock, &fd, NULL), 1);
    ck_assert_int_eq(sh("$W serve --state $S"), 1);
    snprintf(said, sizeof said, "another server uses the socket %s/fcgi.sock", state);
    check_said(said);
    close(fd);
}
END_TEST

/* ---- the state directory ---- */

START_TEST(what_only_looks_makes_nothing)
{
    static const char *const lines[] = { "token list", "token revoke tk-1", "call listRemoteWorkspaces",
                                         "call createRemoteWorkspace", "tools add /bin/true" };
    char said[200];
    snprintf(said, sizeof said, "there is no state directory at %s", state);
    for (size_t i = 0; i < N_ELEMENTS(lines); i++) {
        ck_assert_int_eq(sh("$W %s --state $S", lines[i]), 1);
        check_said(said);
        ck_assert(!exists(state));
    }
    ck_assert_int_eq(mkdir(state, 0700), 0);
    ck_assert_int_eq(sh("$W token list --state $S"), 1);
    check_said("is empty");
    ck_assert_int_eq(rmdir(state), 0);
}
END_TEST

static void check_owner(const char *path, const char *name, mode_t mode)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_uid, getpwnam(name)->pw_uid);
    ck_assert_uint_eq(st.st_mode & 07777, mode);
}

START_TEST(token_add_makes_it_and_says_so)
{
    char said[200];
    snprintf(said, sizeof said, "made the state directory %s/a/b", state);
    ck_assert_int_eq(sh("$W token add x --state $S/a/b"), 0);
    check_said(said);
    ck_assert_int_eq(sh("$W token add x --state $S/a/b"), 0);
    ck_assert_ptr_null(strstr(output, "made the state directory"));
    if (!is_root())
        return;
    snprintf(said, sizeof said, "%s/a/b", state);
    check_owner(said, "www-data", 0750);
    check_owner(state, "root", 0755);
}
END_TEST

START_TEST(an_empty_one_of_roots_is_given_to_the_user)
{
    char inner[160];
    if (!is_root())
        return;
    ck_assert_int_eq(mkdir(state, 0700), 0);
    snprintf(inner, sizeof inner, "%s/lost+found", state); /* a file system of its own */
    ck_assert_int_eq(mkdir(inner, 0700), 0);
    ck_assert_int_eq(sh("$W token add x --state $S"), 0);
    check_owner(state, "www-data", 0750);
    ck_assert_int_eq(sh("$W token list --state $S"), 0);
}
END_TEST

START_TEST(one_that_workers_could_not_use_is_refused_with_the_chown)
{
    static const char *const lines[] = { "run",         "serve",      "warden",
                                         "token add x", "token list", "call listRemoteWorkspaces" };
    char cure[200];
    if (!is_root())
        return;
    ck_assert_int_eq(sh("$W token add x --state $S"), 0);
    snprintf(cure, sizeof cure, "chown -R --from=0 www-data: '%s'", state);
    for (int i = 0; i < 2; i++) {
        /* A file of root's in a directory of theirs; all of it root's. */
        ck_assert_int_eq(sh(i == 0 ? "chown 0 $S/state/data.mdb" : "chown -R 0 $S"), 0);
        for (size_t k = 0; k < N_ELEMENTS(lines); k++) {
            ck_assert_int_eq(sh("PORT=1 timeout 10 $W %s --state $S", lines[k]), 1);
            check_said("belongs to root");
            check_said(cure);
        }
        ck_assert_int_eq(system(cure), 0);
        ck_assert_int_eq(sh("$W token list --state $S"), 0);
    }
}
END_TEST

START_TEST(another_owner_is_named)
{
    if (!is_root())
        return;
    ck_assert_int_eq(sh("install -d -o games $S; $W token add x --state $S"), 0);
    check_owner(state, "games", 0755);
    ck_assert_int_eq(sh("stat -c %%U $S/state/data.mdb"), 0);
    check_said("games");
    ck_assert_int_eq(sh(AS_USER "$W token list --state $S"), 1);
    check_said("belongs to games, and this is www-data: run it as games or as root");
}
END_TEST

START_TEST(what_cannot_be_written_is_named)
{
    if (!is_root())
        return;
    ck_assert_int_eq(mkdir(state, 0700), 0);
    ck_assert_int_eq(mount("tmpfs", state, "tmpfs", MS_RDONLY, "size=1m"), 0);
    int status = sh("$W serve --state $S");
    umount2(state, MNT_DETACH);
    ck_assert_int_eq(status, 1);
    check_said(state);
    check_said("mounted read-only");
    ck_assert_int_eq(sh(AS_USER "$W serve --state $S/below"), 1);
    check_said("which www-data may not enter: choose another place, or chmod o+x");
    ck_assert_int_eq(sh(AS_USER "$W serve --state %s/new", scratch), 1);
    check_said("cannot be made by www-data");
    check_said("EACCES");
    ck_assert_int_eq(sh("$W serve --state /etc/hostname"), 1);
    check_said("/etc/hostname is not a directory");
}
END_TEST

/* ---- wardens ---- */

/* "uid pid" of the warden that answers, in output. */
static bool find_warden(const char *wanted)
{
    for (int64_t end = clock_boottime_ms() + 8000; clock_boottime_ms() < end; usleep(50000)) {
        sh("$W doctor --state $S | sed -n 's/^[a-z]* *warden *pid \\([0-9]*\\)[^:]* uid \\([0-9]*\\).*/uid "
           "\\2 pid \\1/p'");
        if (strstr(output, wanted) != NULL)
            return true;
    }
    return false;
}

static pid_t warden_pid(void)
{
    int pid = 0;
    ck_assert(find_warden("uid "));
    sscanf(output, "uid %*u pid %d", &pid);
    return pid;
}

static pid_t begin(const char *line, const char *log)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    return pid;
}

static int end(pid_t pid)
{
    int status = 0;
    kill(pid, SIGTERM);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void wait_until_said(const char *log, const char *text)
{
    for (int64_t end = clock_boottime_ms() + 5000; clock_boottime_ms() < end; usleep(20000)) {
        sh("cat %s", log);
        if (strstr(output, text) != NULL)
            return;
    }
    check_said(text);
}

START_TEST(a_weaker_warden_gives_way_to_roots)
{
    char log[128];
    int status;
    if (!is_root())
        return;
    snprintf(log, sizeof log, "%s/log", scratch);
    ck_assert_int_eq(sh("$W token add x --state $S"), 0);
    pid_t weak = begin("exec " AS_USER "$W warden --state $S", log);
    ck_assert(find_warden("uid 33 "));
    ck_assert_int_eq(sh("$W doctor --state $S | grep -A1 ' warden '"), 0);
    check_said("fail  warden");
    check_said("and not as root");
    pid_t serve = begin("exec $W serve --state $S", log);
    ck_assert(find_warden("uid 0 "));
    ck_assert_int_eq(waitpid(weak, &status, 0), weak);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* the weaker one that comes again finds its place taken, says so and ends */
    ck_assert_int_eq(sh(AS_USER "timeout 10 $W warden --state $S"), 0);
    check_said("another warden (pid ");
    check_said("uid 0) watches over");
    /* no timeout(1): with the signal it sends SIGCONT, which a leak checker that is just stopping its process
     * misses */
    ck_assert_int_eq(sh("$W warden --state $S & p=$!; sleep 1; kill $p; wait $p"), 0);
    check_said("gives way"); /* serve's is a spare one */
    end(serve);
}
END_TEST

/* A plain user's installation is its owner's: what root asks for in passing neither ends the warden that the
 * owner started nor leaves processes that the owner could not end. */
START_TEST(roots_call_leaves_a_living_warden)
{
    char log[128], said[64];
    int status;
    if (!is_root())
        return;
    snprintf(log, sizeof log, "%s/log", scratch);
    ck_assert_int_eq(sh("$W token add x --state $S"), 0);
    pid_t weak = begin("exec " AS_USER "$W warden --state $S", log);
    snprintf(said, sizeof said, "uid 33 pid %d", (int)weak);
    ck_assert(find_warden(said));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sh("timeout 20 $W call createRemoteWorkspace '{}' --state $S"), 0);
        check_said("\"own_uid\":false");
        ck_assert_ptr_null(strstr(output, "started a warden"));
    }
    ck_assert(find_warden(said));
    ck_assert_int_eq(waitpid(weak, &status, WNOHANG), 0);
    /* nor does one that was started for it when none seemed to live */
    ck_assert_int_eq(sh("timeout 10 $W warden --state $S --spare"), 0);
    check_said("uid 33) watches over");
    ck_assert(find_warden(said));
    ck_assert_int_eq(end(weak), 0);
}
END_TEST

START_TEST(serve_starts_a_warden_and_a_fresh_one_with_new_settings)
{
    char log[128];
    snprintf(log, sizeof log, "%s/log", scratch);
    pid_t serve = begin("exec $W serve --state $S", log);
    pid_t first = warden_pid();
    wait_until_said(log, "serving with 2 workers on ");
    check_said("/fcgi.sock");
    ck_assert_int_eq(sh("ps -o user= -p %d", (int)first), 0);
    check_said(getpwuid(geteuid())->pw_name);
    kill(serve, SIGHUP);
    for (int64_t until = clock_boottime_ms() + 5000; kill(first, 0) == 0 && clock_boottime_ms() < until;)
        usleep(20000);
    ck_assert_int_ne(warden_pid(), first);
    end(serve);
    first = warden_pid(); /* it outlives its serve, as keepers do; the next one begins anew */
    serve = begin("exec $W serve --state $S --no-warden", log);
    ck_assert_int_eq(warden_pid(), first);
    end(serve);
    serve = begin("exec $W serve --state $S", log);
    for (int64_t until = clock_boottime_ms() + 5000; kill(first, 0) == 0 && clock_boottime_ms() < until;)
        usleep(20000);
    ck_assert_int_ne(warden_pid(), first);
    end(serve);
}
END_TEST

START_TEST(call_says_that_it_started_a_warden)
{
    char said[64];
    ck_assert_int_eq(sh("$W token add x --state $S"), 0);
    ck_assert_int_eq(sh("$W call listRemoteWorkspaces --state $S"), 0);
    ck_assert_str_eq(output, "[]\n");
    /* what reads both outputs to their end does not wait for the warden's */
    ck_assert_int_eq(sh("timeout 20 $W call createRemoteWorkspace '{}' --state $S"), 0);
    check_said("call: started a warden, pid ");
    check_said("/run/warden.log");
    pid_t spare = warden_pid();
    snprintf(said, sizeof said, "kill %d", (int)spare);
    ck_assert_int_eq(sh("grep -c 'watching over' $S/run/warden.log"), 0);
    ck_assert_int_eq(sh("timeout 20 $W call listRemoteWorkspaces --state $S"), 0);
    ck_assert_ptr_null(strstr(output, "started a warden"));
    /* one that is started on purpose takes its place, and keepers go on */
    ck_assert_int_eq(sh("timeout 3 $W warden --state $S; :"), 0);
    check_said("gives way");
    ck_assert_int_eq(sh("timeout 20 $W call listRemoteWorkspaces --state $S | grep -c '\"running\":true'"),
                     0);
    ck_assert_int_eq(kill(spare, 0), -1);
}
END_TEST

START_TEST(a_warden_waits_for_the_end_of_another)
{
    char log[128], other_log[128];
    snprintf(log, sizeof log, "%s/log", scratch);
    snprintf(other_log, sizeof other_log, "%s/other", scratch);
    pid_t first = begin("exec $W warden --state $S", log);
    ck_assert_int_eq(warden_pid(), first);
    pid_t second = begin("exec $W warden --state $S --wait", other_log);
    wait_until_said(other_log, "waiting for its end");
    ck_assert_int_eq(waitpid(second, NULL, WNOHANG), 0);
    end(first);
    for (int64_t until = clock_boottime_ms() + 5000; warden_pid() != second && clock_boottime_ms() < until;)
        usleep(20000);
    ck_assert_int_eq(warden_pid(), second);
    end(second);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("operator");
    TCase *c = tcase_create("operator");
    const TTest *const tests[] = {
        each_subcommand_has_help,
        wrong_use_shows_the_usage,
        tools_add_says_who_sees_it,
        tools_add_brings_what_changed,
        uninstall_says_what_stays,
        who_lives_on_holds_no_output,
        the_journal_gets_the_wardens_messages,
        serve_makes_the_folder_of_uploads,
        call_lists_what_it_can_do,
        call_shows_an_operation,
        wrong_settings_are_refused_at_once,
        a_settings_file_that_cannot_be_read_is_named,
        a_busy_socket_is_named,
        what_only_looks_makes_nothing,
        token_add_makes_it_and_says_so,
        an_empty_one_of_roots_is_given_to_the_user,
        one_that_workers_could_not_use_is_refused_with_the_chown,
        another_owner_is_named,
        what_cannot_be_written_is_named,
        a_weaker_warden_gives_way_to_roots,
        roots_call_leaves_a_living_warden,
        serve_starts_a_warden_and_a_fresh_one_with_new_settings,
        call_says_that_it_started_a_warden,
        a_warden_waits_for_the_end_of_another,
    };
    for (size_t i = 0; i < N_ELEMENTS(tests); i++)
        tcase_add_test(c, tests[i]);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    suite_add_tcase(suite, c);
    return unit_run(suite);
}
