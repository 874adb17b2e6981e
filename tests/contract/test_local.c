/* What the local driver promises beyond the contract: what is in a sandbox, what of it may be written, and
 * what packages are shared. */
#include "lib/base/io.h"
#include "lib/driver/local/bwrap.h"
#include "lib/driver/local/root.h"
#include "lib/driver/local/tools.h"
#include "tests/support/local_case.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>

/* ---- what is there ---- */

/* Made by the driver, or places of the sandbox's own. */
static const char *const own_patterns[] = {
    "/etc",           "/etc/profile",  "/etc/passwd", "/etc/group",
    "/etc/hosts",     "/etc/mtab",     "/dev",        "/dev/*",
    "/home",          "/proc",         "/run",        "/run/workspace",
    SANDBOX_AGENT,    SANDBOX_RIPGREP, SANDBOX_NAMES, SANDBOX_NAMES "/fd",
    SANDBOX_NAMES "/python",
    "/etc/gitconfig", "/tmp",          "/workspace",  SANDBOX_HOME
};

static bool is_promised(const char *path)
{
    for (size_t i = 0; i < N_ELEMENTS(own_patterns); i++)
        if (!fnmatch(own_patterns[i], path, 0))
            return true;
    for (const char *const *pattern = root_patterns(); *pattern; pattern++) {
        char below[512];
        snprintf(below, sizeof below, "%s/*", *pattern);
        /* the pattern itself, what lies in a directory that is bound, and directories on the way */
        if (!fnmatch(*pattern, path, FNM_PATHNAME) || !fnmatch(below, path, 0) ||
            !strncmp(*pattern, path, strlen(path)))
            return true;
        char *slash = strrchr(below, '/');
        for (*slash = '\0'; (slash = strrchr(below, '/')) && slash > below;) {
            *slash = '\0';
            if (!fnmatch(below, path, FNM_PATHNAME))
                return true;
        }
    }
    return false;
}

START_TEST(nothing_but_the_written_list_is_there)
{
    START(NULL);
    struct box_result result;
    box_run(&box, "find / \\( -path /proc -o -path /usr \\) -prune -o -mindepth 1 -print", false, 20000,
            &result);
    char *save = NULL;
    int count = 0;
    buffer_text(&result.out);
    for (char *line = strtok_r(result.out.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save), count++)
        ck_assert_msg(is_promised(line), "%s is in the sandbox and not on the list", line);
    ck_assert_int_gt(count, 50);
    box_result_clear(&result);
    ck_assert_str_eq(box_output(&box, "ls -A /home/workspace /workspace /tmp | grep -v : | tr -d '\\n'"), "");
    box_end(&box);
}
END_TEST

START_TEST(the_host_cannot_be_seen)
{
    START(NULL);
    char command[512];
    snprintf(command, sizeof command, "ls -d %s /root /var /srv /opt /sys /boot /mnt 2>/dev/null; true",
             box.config.state_dir);
    ck_assert_str_eq(box_output(&box, command), "");
    snprintf(
        command, sizeof command,
        "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -e '[a]-secret-token' -e "
        "'[/]%s'; true",
        box.config.state_dir + 1);
    ck_assert_str_eq(box_output(&box, command), "");
    ck_assert_str_eq(
        box_output(&box, "for p in /proc/[0-9]*; do [ \"${p#/proc/}\" -lt 40 ] || echo $p; done"), "");
    ck_assert_str_eq(box_output(&box, "cat /proc/1/cmdline | tr '\\0' ' ' | cut -d' ' -f1"),
                     SANDBOX_AGENT "\n");
    ck_assert_str_eq(box_output(&box, "cat /proc/1/environ /proc/1/mem /proc/1/maps 2>/dev/null; ls "
                                      "/proc/1/fd /proc/1/root/ 2>/dev/null; true"),
                     "");
    ck_assert_str_eq(box_output(&box, "hostname; id -u; id -g; pwd"), "ws-test\n1000\n1000\n/workspace\n");
    ck_assert_str_eq(box_output(&box, "cat /proc/self/cgroup | grep -v -e ':/$' -e 'systemd'; true"), "");
    box_end(&box);
}
END_TEST

START_TEST(other_workspaces_cannot_be_seen)
{
    START(NULL);
    struct box other = box;
    box_make_folders(&other, 20302);
    box_start(&other);
    box_output(&other, "echo hidden > /workspace/hidden; echo hidden > /tmp/hidden; setsid sleep 977 "
                       ">/dev/null 2>&1 & true");
    ck_assert_str_eq(box_output(&box, "ls /workspace /tmp; ps -eo args | grep '[s]leep 977'; true"),
                     "/tmp:\n\n/workspace:\n");
    box_leave(&other);
    box_end(&box);
}
END_TEST

/* ---- packages that sandboxes share ---- */

static void put(const char *leaf, const char *text, mode_t mode)
{
    struct error err = ERROR_INIT;
    _cleanup_free_ char *path = config_path(&box.config, leaf, NULL), *folder = xstrdup(path);
    *strrchr(folder, '/') = '\0';
    ck_assert_msg(!io_ensure_directory(folder, 0755, &err), "%s", err.message);
    ck_assert_msg(!io_replace_file(AT_FDCWD, path, text, strlen(text), mode, &err), "%s", err.message);
}

/* As the gateway would have brought them; the real uv only says that it runs. */
static void share(struct sandbox_spec *spec)
{
    (void)spec;
    box.config.shared_packages_mib = 100;
    put("tools/uv", "#!/bin/sh\necho uv $*\n", 0755);
    put("tools/uvx", "#!/bin/sh\necho uvx \"$*\"\n", 0755);
    put("tools/.packages/archive-v0/one/m.py", "true\n", 0644);
    put("tools/.packages/wheels-v8/pypi/m/1.http", "pointer\n", 0644);
    put("tools/.packages/stamp", "first 1 1\n", 0644);
}

START_TEST(shared_packages_are_linked_and_read_only)
{
    START(share);
    ck_assert_str_eq(box_output(&box, "uv a b; uvx 'c  d'; cat ~/.cache/uv/archive-v0/one/m.py"),
                     "uv a b\nuvx c  d\ntrue\n");
    static const char *const attempts[] = {
        "echo x >~/.cache/uv/archive-v0/one/m.py",
        "chmod 777 ~/.cache/uv/archive-v0/one/m.py",
        "echo x >"
        "/run/workspace/tools/.packages/archive-v0/one/m.py",
        "rm -f /run/workspace/tools/.packages/archive-v0/one/m.py",
        "echo x >/run/workspace/tools/.packages/stamp",
        "mv /run/workspace/tools/.packages/archive-v0 /run/workspace/tools/.packages/other",
        "mkdir /run/workspace/tools/.packages/archive-v0/two",
        "mount -o remount,rw /run/workspace/tools/.packages",
        "echo x >/run/workspace/tools/uv",
        "echo x >/run/workspace/bin/uv",
        "truncate -s 0 /run/workspace/tools/.packages/archive-v0/one/m.py",
        "touch -d yesterday /run/workspace/tools/.packages/stamp",
        "python3 -c 'import os; os.setxattr(\"/run/workspace/tools/.packages/stamp\", \"user.x\", b\"y\")'",
    };
    for (size_t i = 0; i < N_ELEMENTS(attempts); i++)
        ck_assert_msg(!box_succeeds(&box, attempts[i]), "%s", attempts[i]);
    /* what it puts in the place of a link is its own */
    ck_assert_str_eq(box_output(&box,
                                "cd ~/.cache/uv; rm archive-v0/one/m.py; echo evil >archive-v0/one/m.py; uv; "
                                "cat archive-v0/one/m.py /run/workspace/tools/.packages/archive-v0/one/m.py"),
                     "uv\nevil\ntrue\n");
    box_end(&box);
}
END_TEST

START_TEST(links_follow_what_is_shared)
{
    static const char list[] =
        "uv; cd ~/.cache/uv; ls archive-v0; cat archive-v0/*/m.py wheels-v8/pypi/m/*.http";
    START(share);
    ck_assert_str_eq(box_output(&box, list), "uv\none\ntrue\npointer\n");
    /* more of the same: own entries stay */
    put("tools/.packages/archive-v0/two/m.py", "second\n", 0644);
    ck_assert_str_eq(box_output(&box, list), "uv\none\ntrue\npointer\n");
    put("tools/.packages/stamp", "first 2 1\n", 0644);
    ck_assert_str_eq(
        box_output(&box, "mkdir ~/.cache/uv/archive-v0/mine; echo mine >~/.cache/uv/archive-v0/mine/m.py"),
        "");
    ck_assert_str_eq(box_output(&box, list), "uv\nmine\none\ntwo\nmine\ntrue\nsecond\npointer\n");
    /* another one: nothing of the old is left that could lead nowhere */
    _cleanup_free_ char *old = config_path(&box.config, "tools/.packages/archive-v0", "one");
    io_remove_tree(AT_FDCWD, old, NULL);
    put("tools/.packages/stamp", "other 1 1\n", 0644);
    ck_assert_str_eq(box_output(&box, list), "uv\ntwo\nsecond\npointer\n");
    /* none any more */
    _cleanup_free_ char *store = config_path(&box.config, "tools", ".packages");
    for (int i = 0; i < 2; i++) {
        io_remove_tree(AT_FDCWD, store, NULL);
        ck_assert_str_eq(box_output(&box, "uv; find ~/.cache/uv -name m.py"), "uv\n");
    }
    box_end(&box);
}
END_TEST

/* ---- what may be written ---- */

static const char *const unwritable[] = {
    "/",     "/dev",      "/etc",     "/usr", "/usr/bin", "/home", "/run/workspace", "/etc/ssl/certs",
    "/proc", "/proc/sys", "/dev/pts",
};

START_TEST(only_four_places_can_be_written)
{
    START(NULL);
    char command[200];
    for (size_t i = 0; i < N_ELEMENTS(unwritable); i++) {
        snprintf(command, sizeof command, "touch %s/x", unwritable[i]);
        ck_assert_msg(!box_succeeds(&box, command), "%s can be written", unwritable[i]);
    }
    ck_assert(!box_succeeds(&box, "echo x >> /etc/passwd"));
    ck_assert(!box_succeeds(&box, "echo x >> " SANDBOX_AGENT));
    ck_assert(!box_succeeds(&box, "echo x >> " SANDBOX_RIPGREP));
    ck_assert(!box_succeeds(&box, "mv " SANDBOX_RIPGREP " /run/workspace/other"));
    ck_assert(!box_succeeds(&box, "mv /run/workspace /run/other"));
    ck_assert(!box_succeeds(&box, "chmod u+w / /dev /etc /etc/hosts || chmod 777 /etc"));
    ck_assert(box_succeeds(&box, "touch /workspace/x ~/x /tmp/x /dev/shm/x /run/x && echo > /dev/null"));
    ck_assert_str_eq(box_output(&box, "stat -c %a /tmp /dev/shm /run | tr '\\n' ' '"), "1777 1777 755 ");
    box_end(&box);
}
END_TEST

START_TEST(temporary_places_are_bounded)
{
    START(NULL);
    int64_t tmp, shm;
    char expected[64];
    bwrap_sizes(&box.spec, &tmp, &shm);
    snprintf(expected, sizeof expected, "%lld %lld 16 ", (long long)tmp, (long long)shm);
    ck_assert_str_eq(
        box_output(&box, "df --output=size -BM /tmp /dev/shm /run | tail -n +2 | tr -d ' M' | tr '\\n' ' '"),
        expected);
    ck_assert(!box_succeeds(&box, "head -c 20000000 /dev/zero > /run/x"));
    box_end(&box);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("local");
    TCase *c = tcase_create("what is there");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, nothing_but_the_written_list_is_there, 0, BOX_LOCAL);
    tcase_add_loop_test(c, the_host_cannot_be_seen, 0, BOX_LOCAL);
    tcase_add_loop_test(c, other_workspaces_cannot_be_seen, 0, BOX_LOCAL);
    tcase_add_loop_test(c, shared_packages_are_linked_and_read_only, 0, BOX_LOCAL);
    tcase_add_loop_test(c, links_follow_what_is_shared, 0, BOX_LOCAL);
    tcase_add_loop_test(c, only_four_places_can_be_written, 0, BOX_LOCAL);
    tcase_add_loop_test(c, temporary_places_are_bounded, 0, BOX_LOCAL);
    suite_add_tcase(s, c);
    return unit_run(s);
}
