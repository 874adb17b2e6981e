/* The commands as an operator types them: help, refusals that name path and cure, what is made and what is
 * not. */
#include "lib/base/io.h"
#include "tests/support/operator_case.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>

/* ---- help ---- */

START_TEST(each_subcommand_has_help)
{
    static const char *const names[] = { "serve", "run",      "warden", "keep",
                                         "call",  "describe", "doctor", "token" };
    char usage[64];
    for (size_t i = 0; i < N_ELEMENTS(names); i++) {
        snprintf(usage, sizeof usage, "usage: workspace-fcgi %s", names[i]);
        ck_assert_int_eq(operator_types("$W %s --help --state $S", names[i]), 0);
        operator_reads(usage);
        ck_assert_int_eq(operator_types("WORKSPACE_WORKERS=nonsense $W %s -h", names[i]), 0);
        ck_assert_int_eq(operator_types("$W --help"), 0);
        operator_reads(names[i]);
    }
    ck_assert_int_eq(operator_types("$W --version"), 0);
    operator_reads("workspace-fcgi 0.");
    ck_assert_int_eq(operator_types("$W call --help"), 0);
    operator_reads("createRemoteWorkspace");
    ck_assert(!operator_finds(operator_state));
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
        ck_assert_msg(operator_types("$W %s --state $S", lines[i].line) == 2, "%s: %s", lines[i].line,
                      operator_output);
        operator_reads("usage: workspace-fcgi ");
        const char *word = strrchr(lines[i].line, ' ');
        _cleanup_free_ char *named = xasprintf("'%s' is unknown here", word ? word + 1 : "");
        if (lines[i].last_is_unknown)
            operator_reads(named);
        ck_assert_msg(strncmp(operator_output, "usage:", 6) != 0, "%s does not say what is wrong: %s",
                      lines[i].line, operator_output);
    }
    ck_assert_int_eq(operator_types("$W bogus"), 2);
    operator_reads("there is no subcommand bogus");
    ck_assert_int_eq(operator_types("$W call bogus --state $S"), 2);
    operator_reads("there is no operation bogus");
    ck_assert(!operator_finds(operator_state));
}
END_TEST

START_TEST(tools_add_says_who_sees_it)
{
    ck_assert_int_eq(operator_types("$W tools add --new /bin/true --state $S"), 0);
    operator_reads("true added to ");
    operator_reads("workspaces that run now see it after a stop and a start");
    ck_assert_int_eq(operator_types("$W tools add /bin/true /bin/false --state $S"), 0);
    operator_reads("true is already in ");
    operator_reads("false added to ");
    operator_reads("every workspace sees it at once");
}
END_TEST

/* Which of it is there already is told by its content and by who may run it, not by its name. */
START_TEST(tools_add_brings_what_changed)
{
    ck_assert_int_eq(operator_types("$W tools add --new /bin/true --state $S"), 0);
    ck_assert_int_eq(
        operator_types("mkdir $S.new && cp /bin/false $S.new/true && $W tools add $S.new/true --state $S && "
                       "cmp $S/tools/true /bin/false"),
        0);
    operator_reads("true added to ");
    ck_assert_int_eq(operator_types("chmod 700 $S/tools/true && $W tools add $S.new/true --state $S && "
                                    "test $(stat -c %%a $S/tools/true) = 755 && rm -r $S.new"),
                     0);
    operator_reads("true added to ");
    ck_assert_int_eq(
        operator_types("cp /bin/true $S.file && chmod 644 $S.file && $W tools add $S.file --state $S && "
                       "test $(stat -c %%a $S/tools/state.file) = 755 && rm $S.file"),
        0);
    operator_reads("(mode 0755): the file given may not be executed");
}
END_TEST

/* Programs of the repository that install put somewhere go again; an operator's settings stay, and it is
 * said. */
START_TEST(uninstall_says_what_stays)
{
    char folder[200];
    snprintf(folder, sizeof folder, "%s/etc/workspace-fcgi", scratch);
    ck_assert_int_eq(
        operator_types("mkdir -p %s && touch %s/workspace-fcgi.conf && make uninstall DESTDIR=%s PREFIX=/usr",
                       folder, folder, scratch),
        0);
    operator_reads("stays: it holds settings");
    operator_reads("(workspace-fcgi.conf)");
    ck_assert_ptr_null(strstr(operator_output, "rror"));
    ck_assert_int_eq(operator_types("rm %s/* && make uninstall DESTDIR=%s PREFIX=/usr", folder, scratch), 0);
    ck_assert(!operator_finds(folder));
}
END_TEST

/* For lighttpd, which spools what comes up. */
START_TEST(serve_makes_the_folder_of_uploads)
{
    ck_assert_int_eq(operator_types("timeout 1 $W serve --state $S; test $(stat -c %%a $S/uploads) = 700"),
                     0);
}
END_TEST

START_TEST(call_lists_what_it_can_do)
{
    ck_assert_int_eq(
        operator_types(
            "$W token add x --state $S && ws=$($W call createRemoteWorkspace --state $S 2>/dev/null | "
            "grep -o 'ws-[0-9a-f]*' | head -1) && $W call downloadWorkspaceFile "
            "\"{\\\"workspace_id\\\":\\\"$ws\\\",\\\"path\\\":\\\"f\\\"}\" --state $S"),
        1);
    operator_reads("/raw?path=FILE");
    ck_assert_int_eq(operator_types("$W call --help"), 0);
    ck_assert_ptr_null(strstr(operator_output, "downloadWorkspaceFile"));
    ck_assert_ptr_null(strstr(operator_output, "inspectWorkspaceFile"));
    ck_assert_ptr_null(strstr(operator_output, "uploadWorkspaceFile"));
}
END_TEST

/* Whatever else is given: nothing is run, and nothing needs to be there. */
START_TEST(call_shows_an_operation)
{
    static const char *const lines[] = { "call getRealtimeWorkspaceExecEvents --help",
                                         "call --help workspace_realtime_exec_events",
                                         "call getRealtimeWorkspaceExecEvents '{\"cursor\": 1}' -h" };
    for (size_t i = 0; i < N_ELEMENTS(lines); i++) {
        ck_assert_int_eq(operator_types("WORKSPACE_WORKERS=nonsense $W %s --state $S", lines[i]), 0);
        operator_reads("Read what a command wrote after a cursor");
        operator_reads("\n  exec_id  string, required; must be ex- and 32 lowercase hex digits\n");
        operator_reads("\n  wait_seconds  number from 0 to 30 (more is taken as that), default 0\n");
        operator_reads(
            i == 1
                ? "\n  workspace-fcgi call workspace_realtime_exec_events '{\"workspace_id\": \"ws-...\", "
                : "\n  workspace-fcgi call getRealtimeWorkspaceExecEvents '{\"workspace_id\": \"ws-...\", ");
    }
    ck_assert_int_eq(operator_types("$W call bogus --help"), 2);
    operator_reads("there is no operation bogus");
    ck_assert(!operator_finds(operator_state));
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
        int status = operator_types("%s", line);
        ck_assert_msg(status == cases[i].status, "%s: %d %s", line, status, operator_output);
        operator_reads(cases[i].said);
        ck_assert_msg(!operator_finds(operator_state), "%s made the state directory", line);
    }
}
END_TEST

START_TEST(a_settings_file_that_cannot_be_read_is_named)
{
    char path[128];
    if (!operator_is_root())
        return;
    snprintf(path, sizeof path, "%s/settings", scratch);
    ck_assert_int_eq(io_replace_file(AT_FDCWD, path, "", 0, 0600, NULL), 0);
    ck_assert_int_eq(operator_types(AS_USER "$W serve --state $S --config %s", path), 2);
    operator_reads(path);
    operator_reads("of uid 0, mode 0600");
}
END_TEST

START_TEST(a_busy_socket_is_named)
{
    char lock[160], said[200];
    int fd = -1;
    ck_assert_int_eq(operator_types("$W token add x --state $S"), 0);
    snprintf(lock, sizeof lock, "%s/fcgi.sock.lock", operator_state);
    ck_assert_int_eq(io_lock_file(lock, &fd, NULL), 1);
    ck_assert_int_eq(operator_types("$W serve --state $S"), 1);
    snprintf(said, sizeof said, "another server uses the socket %s/fcgi.sock", operator_state);
    operator_reads(said);
    close(fd);
}
END_TEST

/* ---- the state directory ---- */

START_TEST(what_only_looks_makes_nothing)
{
    static const char *const lines[] = { "token list", "token revoke tk-1", "call listRemoteWorkspaces",
                                         "call createRemoteWorkspace", "tools add /bin/true" };
    char said[200];
    snprintf(said, sizeof said, "there is no state directory at %s", operator_state);
    for (size_t i = 0; i < N_ELEMENTS(lines); i++) {
        ck_assert_int_eq(operator_types("$W %s --state $S", lines[i]), 1);
        operator_reads(said);
        ck_assert(!operator_finds(operator_state));
    }
    ck_assert_int_eq(mkdir(operator_state, 0700), 0);
    ck_assert_int_eq(operator_types("$W token list --state $S"), 1);
    operator_reads("is empty");
    ck_assert_int_eq(rmdir(operator_state), 0);
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
    snprintf(said, sizeof said, "made the state directory %s/a/b", operator_state);
    ck_assert_int_eq(operator_types("$W token add x --state $S/a/b"), 0);
    operator_reads(said);
    ck_assert_int_eq(operator_types("$W token add x --state $S/a/b"), 0);
    ck_assert_ptr_null(strstr(operator_output, "made the state directory"));
    if (!operator_is_root())
        return;
    snprintf(said, sizeof said, "%s/a/b", operator_state);
    check_owner(said, "www-data", 0750);
    check_owner(operator_state, "root", 0755);
}
END_TEST

START_TEST(an_empty_one_of_roots_is_given_to_the_user)
{
    char inner[160];
    if (!operator_is_root())
        return;
    ck_assert_int_eq(mkdir(operator_state, 0700), 0);
    snprintf(inner, sizeof inner, "%s/lost+found", operator_state); /* a file system of its own */
    ck_assert_int_eq(mkdir(inner, 0700), 0);
    ck_assert_int_eq(operator_types("$W token add x --state $S"), 0);
    check_owner(operator_state, "www-data", 0750);
    ck_assert_int_eq(operator_types("$W token list --state $S"), 0);
}
END_TEST

START_TEST(one_that_workers_could_not_use_is_refused_with_the_chown)
{
    static const char *const lines[] = { "run",         "serve",      "warden",
                                         "token add x", "token list", "call listRemoteWorkspaces" };
    char cure[200];
    if (!operator_is_root())
        return;
    ck_assert_int_eq(operator_types("$W token add x --state $S"), 0);
    snprintf(cure, sizeof cure, "chown -R --from=0 www-data: '%s'", operator_state);
    for (int i = 0; i < 2; i++) {
        /* A file of root's in a directory of theirs; all of it root's. */
        ck_assert_int_eq(operator_types(i == 0 ? "chown 0 $S/state/data.mdb" : "chown -R 0 $S"), 0);
        for (size_t k = 0; k < N_ELEMENTS(lines); k++) {
            ck_assert_int_eq(operator_types("PORT=1 timeout 10 $W %s --state $S", lines[k]), 1);
            operator_reads("belongs to root");
            operator_reads(cure);
        }
        ck_assert_int_eq(system(cure), 0);
        ck_assert_int_eq(operator_types("$W token list --state $S"), 0);
    }
}
END_TEST

START_TEST(another_owner_is_named)
{
    if (!operator_is_root())
        return;
    ck_assert_int_eq(operator_types("install -d -o games $S; $W token add x --state $S"), 0);
    check_owner(operator_state, "games", 0755);
    ck_assert_int_eq(operator_types("stat -c %%U $S/state/data.mdb"), 0);
    operator_reads("games");
    ck_assert_int_eq(operator_types(AS_USER "$W token list --state $S"), 1);
    operator_reads("belongs to games, and this is www-data: run it as games or as root");
}
END_TEST

START_TEST(what_cannot_be_written_is_named)
{
    if (!operator_is_root())
        return;
    ck_assert_int_eq(mkdir(operator_state, 0700), 0);
    ck_assert_int_eq(mount("tmpfs", operator_state, "tmpfs", MS_RDONLY, "size=1m"), 0);
    int status = operator_types("$W serve --state $S");
    umount2(operator_state, MNT_DETACH);
    ck_assert_int_eq(status, 1);
    operator_reads(operator_state);
    operator_reads("mounted read-only");
    ck_assert_int_eq(operator_types(AS_USER "$W serve --state $S/below"), 1);
    operator_reads("which www-data may not enter: choose another place, or chmod o+x");
    ck_assert_int_eq(operator_types(AS_USER "$W serve --state %s/new", scratch), 1);
    operator_reads("cannot be made by www-data");
    operator_reads("EACCES");
    ck_assert_int_eq(operator_types("$W serve --state /etc/hostname"), 1);
    operator_reads("/etc/hostname is not a directory");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        each_subcommand_has_help,
        wrong_use_shows_the_usage,
        tools_add_says_who_sees_it,
        tools_add_brings_what_changed,
        uninstall_says_what_stays,
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
    };
    return unit_run_tests("operator", tests, N_ELEMENTS(tests), operator_set_up, operator_tear_down, 60);
}
