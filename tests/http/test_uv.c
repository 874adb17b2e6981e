/* The tools of a workspace, and a Python project's life in one: real uv, real packages from PyPI. */
#include "tests/support/must.h"
#include "tests/support/suite.h"

#include "lib/base/memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define UV "build/tools/uv"

static char ws[40];

/* Every time, since each test is a process of its own; what is there already is left alone. */
static void make_workspace(void)
{
    _cleanup_free_ char *line = xasprintf("%s tools add " UV " " UV "x --state %s",
                                          build_path("workspace-fcgi"), instance_state(the));
    ck_assert_int_eq(system(line), 0);
    workspace_create(the, NULL, ws);
}

static void end_workspace(void)
{
    workspace_terminate(the, ws);
}

/* Must succeed, print what is expected on either stream (NULL = anything); tells the time. */
static double run_in(const char *workspace, const char *command, const char *expected)
{
    struct exec_log log;
    exec_run_command(the, workspace, command, &log);
    ck_assert_msg(member_number(log.exit, "returncode") == 0, "%s\n%s\n%s", command, log.out, log.err);
    ck_assert_msg(!expected || strstr(log.out, expected) || strstr(log.err, expected),
                  "%s\nprinted: %s\n%s\nwithout: %s", command, log.out, log.err, expected);
    double ms = (double)member_number(log.exit, "duration_ms");
    exec_log_clear(&log);
    return ms;
}

static void run(const char *command, const char *expected)
{
    printf("%7.0f ms  %.90s\n", run_in(ws, command, expected), command);
}

static void must_fail(const char *command, const char *expected)
{
    struct exec_log log;
    exec_run_command(the, ws, command, &log);
    ck_assert_msg(member_number(log.exit, "returncode") != 0, "%s\n%s", command, log.out);
    ck_assert_msg(strstr(log.err, expected), "%s\nprinted: %s\nwithout: %s", command, log.err, expected);
    exec_log_clear(&log);
}

START_TEST(every_tool_is_there)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s", ws);
    json_auto_t *record = api(the, 200, "GET", path, NULL);
    json_t *missing = json_object_get(json_object_get(record, "capabilities"), "missing_tools");
    ck_assert_msg(json_is_array(missing) && json_array_size(missing) == 0, "%s", json_dumps(missing, 0));
    run("for t in uv uvx python3 git git-lfs jq curl wget rg fd patch tree zip unzip; do "
        "command -v $t >/dev/null && $t --version >/dev/null 2>&1 || $t -v >/dev/null 2>&1 || echo no $t; "
        "done; "
        "echo that was all",
        NULL);
    run("touch one.txt && fd -e txt", "one.txt");
    run("git init -q a && cd a && git lfs track '*.bin' && head -c 100000 /dev/zero >x.bin && git add . && "
        "git -c user.name=a -c user.email=a@b commit -qm x && git cat-file -p HEAD:x.bin",
        "git-lfs.github.com/spec");
}
END_TEST

START_TEST(what_is_not_there_is_told)
{
    char other[40], path[100];
    struct exec_log log;
    snprintf(path, sizeof path, "%s/tools", instance_state(the));
    ck_assert_int_eq(chmod(path, 0755), 0);
    snprintf(path, sizeof path, "%s/tools/uvx", instance_state(the));
    ck_assert_int_eq(chmod(path, 0644), 0);
    workspace_create(the, NULL, other);
    snprintf(path, sizeof path, "/api/workspaces/%s", other);
    json_auto_t *record = api(the, 200, "GET", path, NULL);
    json_t *missing = json_object_get(json_object_get(record, "capabilities"), "missing_tools");
    ck_assert_uint_eq(json_array_size(missing), 1);
    ck_assert_str_eq(json_string_value(json_array_get(missing, 0)), "uvx");
    exec_run_command(
        the, other,
        "ls /run/workspace/tools/uv; command -v uv >/dev/null || echo none; uvx --version 2>/dev/null", &log);
    ck_assert_str_eq(log.out, "/run/workspace/tools/uv\n");
    exec_log_clear(&log);
    workspace_terminate(the, other);
}
END_TEST

START_TEST(nobody_inside_changes_a_tool)
{
    must_fail("cp /usr/bin/true /run/workspace/tools/true", "Read-only file system");
    must_fail("chmod u+w /run/workspace/tools/uv", "Read-only file system");
    must_fail("rm /run/workspace/tools/uv", "Read-only file system");
    must_fail("ln -sf /workspace/evil /run/workspace/bin/fd", "Read-only file system");
}
END_TEST

START_TEST(a_project_lives)
{
    run("uv init -q demo && cd demo && uv run -q demo", "Hello from demo!");
    run("cd demo && uv add -q --dev pytest && uv add -q six && cat pyproject.toml", "six>=");
    run("cd demo && printf 'import six\\n\\ndef test_it():\\n    assert six.PY3\\n' >test_it.py && uv run "
        "pytest -q",
        "1 passed");
    run("cd demo && rm -rf .venv && uv sync -q && uv run pytest -q", "1 passed");
    run("cd demo && uvx -q ruff check --select F .", "All checks passed!");
}
END_TEST

START_TEST(run_bash_has_it_as_well)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s/bash", ws);
    json_auto_t *result =
        api(the, 200, "POST", path,
            make_json("{s:s, s:i}", "command", "uv run -q --no-project python3 -c 'print(6 * 7)'",
                      "wait_seconds", 60));
    ck_assert_msg(strstr(member_text(result, "stdout"), "42"), "%s", json_dumps(result, 0));
}
END_TEST

START_TEST(a_script_brings_its_packages)
{
    run("printf '# /// script\\n# dependencies = [\"six\"]\\n# ///\\nimport six\\nprint(six.PY3)\\n' >s.py "
        "&& "
        "uv run -q s.py",
        "True");
}
END_TEST

/* The host's Pythons are what there is; others are downloaded where that is possible, else refused. */
START_TEST(versions_of_python_are_the_hosts)
{
    run("v=$(/usr/bin/python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'); uv run -q "
        "--no-project "
        "--python $v python -c 'import sys; print(sys.base_prefix)'",
        "/usr");
    must_fail("uv run --no-project --no-python-downloads --python 3.5 python -V", "3.5");
}
END_TEST

START_TEST(what_the_operator_names_is_passed)
{
    char other[40];
    run("echo \"<$WSF_TEST_INDEX$WSF_TEST_HIDDEN$WSF_TEST_ABSENT>\"", "<https://index.example/simple>");
    workspace_create(the, make_json("{s:{s:s}}", "env", "WSF_TEST_INDEX", "mine"), other);
    run_in(other, "echo \"<$WSF_TEST_INDEX>\"", "<mine>");
    workspace_terminate(the, other);
}
END_TEST

/* A copy of the script beside another list of hashes, or without an index: uv does not come, and that is no
 * failure. */
START_TEST(what_is_not_the_listed_uv_does_not_come)
{
    static const char *const ways[] = {
        "sed -i 's/sha256:...../sha256:00000/' $d/uv.txt; $d/bring_uv.sh $d/to",
        "PIP_NO_INDEX=1 PIP_FIND_LINKS= $d/bring_uv.sh $d/to"
    };
    char line[400], said[600];
    for (size_t i = 0; i < N_ELEMENTS(ways); i++) {
        snprintf(line, sizeof line,
                 "d=$(mktemp -d); cp conf/bring_uv.sh conf/uv.txt $d; %s; echo status $?; ls $d/to; rm -r $d",
                 ways[i]);
        FILE *pipe = popen(line, "re");
        said[fread(said, 1, sizeof said - 1, pipe)] = '\0';
        pclose(pipe);
        ck_assert_msg(strstr(said, "could not be brought") && strstr(said, "status 0\n") &&
                          !strstr(said, "\nuv"),
                      "%s", said);
    }
}
END_TEST

/* ---- packages that all workspaces share ---- */

static char *output_of(const char *workspace, const char *command)
{
    struct exec_log log;
    exec_run_command(the, workspace, command, &log);
    ck_assert_msg(member_number(log.exit, "returncode") == 0, "%s\n%s\n%s", command, log.out, log.err);
    char *text = xstrdup(log.out);
    exec_log_clear(&log);
    return text;
}

/* Until the gateway has it for all, as a whole. */
static void wait_for_shared(const char *package, const char *version)
{
    char path[200], stamp[200];
    snprintf(path, sizeof path, "ls %s/tools/.packages/wheels-v*/pypi/%s/%s-*.http >/dev/null 2>&1",
             instance_state(the), package, version);
    snprintf(stamp, sizeof stamp,
             "find %s/tools/.packages/stamp -newer $(ls -d %s/tools/.packages/wheels-v*/pypi/%s) | grep -q .",
             instance_state(the), instance_state(the), package);
    for (long long end = now_ms() + 90000; system(path) != 0 || system(stamp) != 0; sleep_ms(200))
        ck_assert_msg(now_ms() < end, "%s==%s is not shared", package, version);
}

/* All that is installed there, or the next one would get a part. */
static void wait_for_all_shared(const char *workspace)
{
    char *save = NULL;
    _cleanup_free_ char *all = output_of(workspace, "uv pip list -q --format freeze");
    ck_assert_msg(strstr(all, "pytest==") && strstr(all, "six=="), "%s", all);
    for (char *name = strtok_r(all, "\n", &save); name; name = strtok_r(NULL, "\n", &save)) {
        char *version = strstr(name, "==");
        ck_assert_msg(version != NULL, "%s", name);
        *version = '\0';
        wait_for_shared(name, version + 2);
    }
}

static void create_without_network(char id[static 40])
{
    workspace_create(the, make_json("{s:b}", "block_network", 1), id);
}

/* The second one has no network: all that it gets is what the gateway brought. The first one's cache stays,
 * or there would be no wish to be seen; its time is that of uv alone, without what is shared. */
START_TEST(what_one_brought_the_next_one_has)
{
    char other[40];
    run("uv init -q --bare --name demo && uv add -q pytest six", NULL);
    double first = run_in(ws, "rm -rf .venv && UV_CACHE_DIR=~/fresh /run/workspace/tools/uv sync -q", NULL);
    _cleanup_free_ char *lock = output_of(ws, "cat uv.lock"), *project = output_of(ws, "cat pyproject.toml");
    wait_for_all_shared(ws);
    create_without_network(other);
    _cleanup_free_ char *command = xasprintf(
        "cat >uv.lock <<'END'\n%sEND\ncat >pyproject.toml <<'END'\n%sEND\nuv sync -q", lock, project);
    double second = run_in(other, command, NULL);
    run_in(other, "uv run -q --offline pytest --version", "pytest");
    run_in(other, "find ~/.cache/uv/archive-v0 -name six.py -type l -printf '%l\\n'",
           "/run/workspace/tools/.packages/");
    run_in(other, "find .venv -name six.py -type f", "six.py");
    printf("uv sync: %.0f ms from PyPI, %.0f ms from what is shared\n", first, second);
    workspace_terminate(the, other);
}
END_TEST

static const char poison[] =
    "echo 'raise SystemExit(\"p01s0n\")' >~/poison\n"
    "uv venv -q v && VIRTUAL_ENV=v uv pip install -q six==1.16.0\n"
    "cd ~/.cache/uv\n"
    /* what it has already, and what nobody has yet, under its true name */
    "for f in $(find archive-v0 -name six.py); do rm -f $f; cp ~/poison $f; done\n"
    "mkdir -p wheels-v8/pypi/idna archive-v0/AAAAAAAAAAAAAAAA/idna\n"
    "cp ~/poison archive-v0/AAAAAAAAAAAAAAAA/idna/__init__.py\n"
    "ln -s ../../../archive-v0/AAAAAAAAAAAAAAAA wheels-v8/pypi/idna/3.10-py3-none-any\n"
    "sed 's/.*/p01s0n/' wheels-v8/pypi/six/*.http >wheels-v8/pypi/idna/3.10-py3-none-any.http\n"
    /* names that are none */
    "mkdir -p 'wheels-v8/pypi/$(touch /workspace/evil)' wheels-v8/pypi/--index-url=http: wheels-v8/pypi/x\n"
    "for d in wheels-v8/pypi/*; do [ -L $d ] || : >\"$d/\"'1;touch evil-py3-none-any.http'; : "
    ">\"$d/--python=evil-x.http\"; done\n"
    "ln -s /etc wheels-v8/pypi/etc; ln -s . wheels-v9; mkfifo wheels-v8/pypi/fifo "
    "wheels-v8/pypi/x/2.0-py3.http\n"
    /* the shared ones themselves */
    "for f in $(find /run/workspace/tools/.packages -type f | head -50); do cp ~/poison $f; chmod 777 $f; rm "
    "-f $f; "
    "done 2>/dev/null\n"
    "cp ~/poison /run/workspace/tools/.packages/stamp 2>/dev/null; mount -o remount,rw "
    "/run/workspace/tools/.packages "
    "2>/dev/null\n"
    "find archive-v0 -type l | while read l; do cp ~/poison $l 2>/dev/null && echo WROTE $l; done; true";

START_TEST(nobody_poisons_what_others_execute)
{
    char other[40];
    _cleanup_free_ char *said = output_of(ws, poison);
    ck_assert_str_eq(said, "");
    wait_for_shared("six", "1.16.0");
    wait_for_shared("idna", "3.10");
    create_without_network(other);
    run_in(other, "uv venv -q v && VIRTUAL_ENV=v uv pip install -q --offline idna==3.10 six==1.16.0", NULL);
    run_in(other, "v/bin/python -c 'import six, idna; print(idna.encode(\"\\u00e4.example\"), six.PY3)'",
           "b'xn--4ca.example' True");
    /* each file is what its wheel's list says, which came from the index */
    run_in(other,
           "v/bin/python - <<'END'\nimport base64, csv, glob, hashlib, os\nseen = 0\n"
           "for record in glob.glob('v/lib/*/site-packages/*.dist-info/RECORD'):\n"
           "    top = os.path.dirname(os.path.dirname(record))\n"
           "    for name, digest, _ in csv.reader(open(record)):\n"
           "        if digest.startswith('sha256='):\n"
           "            found = hashlib.sha256(open(os.path.join(top, name), 'rb').read()).digest()\n"
           "            assert base64.urlsafe_b64encode(found).rstrip(b'=').decode() == digest[7:], name\n"
           "            seen += 1\nprint(seen > 10, 'all as listed')\nEND",
           "True all as listed");
    run_in(other,
           "grep -rl p01s0n /run/workspace/tools/.packages | wc -l; ls "
           "/run/workspace/tools/.packages/wheels-v*/pypi | "
           "grep -c -e etc -e fifo -e touch -e index; ls /workspace",
           "0\n0\nv\n");
    workspace_terminate(the, other);
}
END_TEST

int main(void)
{
    static const char *const environment[] = { "WORKSPACE_PASS_ENV=WSF_TEST_INDEX,WSF_TEST_ABSENT",
                                               "WSF_TEST_INDEX=https://index.example/simple",
                                               "WSF_TEST_HIDDEN=hidden", NULL };
    struct stat status;
    if (stat(UV, &status) || stat("/usr/bin/uv", &status) == 0 || stat("/usr/local/bin/uv", &status) == 0) {
        puts("SKIP: " UV " is not there (make bring-uv brings it from PyPI), or the host has one of its own");
        return 77;
    }
    Suite *s = suite_create("uv");
    TCase *c = tcase_create("one workspace for each test");
    tcase_add_checked_fixture(c, make_workspace, end_workspace);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, every_tool_is_there);
    tcase_add_test(c, what_is_not_there_is_told);
    tcase_add_test(c, nobody_inside_changes_a_tool);
    tcase_add_test(c, a_project_lives);
    tcase_add_test(c, run_bash_has_it_as_well);
    tcase_add_test(c, a_script_brings_its_packages);
    tcase_add_test(c, versions_of_python_are_the_hosts);
    tcase_add_test(c, what_the_operator_names_is_passed);
    tcase_add_test(c, what_is_not_the_listed_uv_does_not_come);
    tcase_add_test(c, what_one_brought_the_next_one_has);
    tcase_add_test(c, nobody_poisons_what_others_execute);
    suite_add_tcase(s, c);
    return suite_main(s, environment);
}
