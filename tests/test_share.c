/* The warden's chore that has packages brought for all: what it takes from homes that anybody writes, and
 * when it stops. uv is a script that does as uv would and writes down how it was called. */
#include "lib/base/buffer.h"
#include "lib/base/ids.h"
#include "lib/base/io.h"
#include "lib/store/state.h"
#include "tests/support/house.h"
#include "tests/support/unit.h"

#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[64], state[80], ws[ID_SIZE];

static const char fake_uv[] = "#!/bin/sh\n"
                              "for package; do :; done\n"
                              "cd \"$UV_CACHE_DIR\"\n"
                              "case $* in *--dry-run*) echo \"$package\" >>calls; exit 0 ;; esac\n"
                              "name=${package%%==*} version=${package##*==}\n"
                              "case $name in\n"
                              "refused*) exit 1 ;;\n"
                              "slow*) mkdir .tmpSLOW && sleep 100 ;;\n"
                              "deadly*) kill -9 -1 ;;\n"
                              "esac\n"
                              "mkdir -p wheels-v8/pypi/$name archive-v0/$name simple-v28 /tmp/target\n"
                              ": >wheels-v8/pypi/$name/$version-py3-none-any.http\n"
                              "case $name in\n"
                              "large*)\n"
                              "    head -c 3000000 /dev/zero >archive-v0/$name/data\n"
                              "    ln -s $PWD/archive-v0/$name/data /tmp/target/data\n"
                              "    ;;\n"
                              "esac\n";

static char *path_of(const char *leaf)
{
    return xasprintf("%s/%s", state, leaf);
}

/* In the state directory; $WS is the workspace, $STATE the directory. */
static void shell(const char *command)
{
    _cleanup_free_ char *line = xasprintf("cd %s && %s", state, command);
    ck_assert_msg(system(line) == 0, "%s", line);
}

/* A record of a workspace of `owner`; id "" = a new one. */
static void add_record(char id[static ID_SIZE], const char *owner, bool blocked)
{
    struct error err = ERROR_INIT;
    json_auto_t *record = house_record(id, json_pack("{s:b}", "block_network", blocked)), *existing = NULL;
    json_object_set_new(record, "owner", json_string(owner));
    struct state *store = state_open(state, &err);
    ck_assert_msg(store != NULL, "%s", err.message);
    ck_assert_msg(state_create_workspace(store, record, NULL, 0, 0, 0, &existing, &err) == 0, "%s",
                  err.message);
    state_close(store);
}

/* Of another principal; $OTHER. */
static void add_other(char id[static ID_SIZE])
{
    id[0] = '\0';
    add_record(id, "other", false);
    setenv("OTHER", id, 1);
}

static void end_record(const char *id)
{
    struct error err = ERROR_INIT;
    struct state *store = state_open(state, &err);
    ck_assert_msg(store && state_remove_workspace(store, id, false, &err) == 0, "%s", err.message);
    state_close(store);
}

static void setup(void)
{
    struct error err = ERROR_INIT;
    snprintf(folder, sizeof folder, "/tmp/wsf-share-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chmod(folder, 0755), 0);
    snprintf(state, sizeof state, "%s/state", folder);
    *ws = '\0';
    _cleanup_free_ char *tools = path_of("tools"), *uv = path_of("tools/uv"), *run = path_of("run");
    ck_assert_int_eq(mkdir(state, 0750), 0);
    const struct passwd *user = getpwnam("www-data");
    if (geteuid() == 0)
        ck_assert_int_eq(chown(state, user->pw_uid, user->pw_gid), 0);
    ck_assert_int_eq(io_ensure_directory(tools, 0755, &err), 0);
    ck_assert_int_eq(io_ensure_directory(run, 0700, &err), 0);
    ck_assert_int_eq(io_replace_file(AT_FDCWD, uv, fake_uv, strlen(fake_uv), 0755, &err), 0);
    add_record(ws, "owner", false);
    setenv("WS", ws, 1);
    setenv("STATE", state, 1);
    shell("mkdir -p workspaces/$WS/home");
}

static void teardown(void)
{
    io_remove_tree(AT_FDCWD, folder, NULL);
}

/* In the cache of the workspace. */
static void in_cache(const char *command)
{
    _cleanup_free_ char *line =
        xasprintf("c=workspaces/$WS/home/.cache/uv/wheels-v8/pypi; mkdir -p $c && cd $c && %s", command);
    shell(line);
}

/* *ret = what the chore said; caller frees. */
static char *share(const char *mib)
{
    char program[PATH_MAX], said[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < 2; i++)
        *strrchr(program, '/') = '\0';
    _cleanup_free_ char *line = xasprintf(
        "%s/workspace-fcgi warden --chore share --state %s --set WORKSPACE_SHARED_PACKAGES_MIB=%s 2>&1",
        program, state, mib);
    FILE *out = popen(line, "re");
    said[fread(said, 1, sizeof said - 1, out)] = '\0';
    ck_assert_msg(pclose(out) == 0, "%s", said);
    return xstrdup(said);
}

/* Sorted, each once; "" where there is no such file. */
static char *lines_of(const char *leaf)
{
    char text[4096];
    _cleanup_free_ char *line =
        xasprintf("sort -u %s/tools/.packages/%s 2>/dev/null | tr '\\n' ' '", state, leaf);
    FILE *out = popen(line, "re");
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    pclose(out);
    return xstrdup(text);
}

static void expect_calls(const char *expected)
{
    _cleanup_free_ char *calls = lines_of("calls");
    ck_assert_str_eq(calls, expected);
}

START_TEST(names_of_packages_are_taken_and_nothing_else)
{
    in_cache("mkdir six zope.interface x _x .hidden -- -r '$(touch evil)' 'a b' 'a;b' fifo sub "
             "$(printf 'n%0200d' 0) && "
             "touch six/1.17.0-py3-none-any.http six/1.16.0-py3-none-any.http six/1.15.0-py3-none-any.lock "
             "six/none.http six/--python=x-y.http 'six/1;touch evil-py3.http' 'six/1.0 --index=x-py3.http' "
             "zope.interface/7.2-cp311-cp311-manylinux_2_17_x86_64.http x/1.0+local.1-py3-none-any.http "
             "_x/1-py3.http .hidden/1-py3.http ./-r/1-py3.http './$(touch evil)/1-py3.http' 'a b/1-py3.http' "
             "'a;b/1-py3.http' && ln -s /etc etc && ln -s six linked && mkfifo fifo/1-py3.http pipe && "
             "mkdir sub/1-py3.http && echo x >file && ln -s . ../../wheels-v9");
    /* the way to it leads elsewhere */
    char other[ID_SIZE];
    add_other(other);
    shell("o=workspaces/$OTHER/home; mkdir -p other/uv/wheels-v8/pypi/elsewhere "
          "$o && "
          "touch other/uv/wheels-v8/pypi/elsewhere/1-py3.http && ln -s $STATE/other $o/.cache");
    shell("n=workspaces/nobody/home/.cache/uv/wheels-v8/pypi/nobody; mkdir -p $n && touch $n/1-py3.http");
    free(share("100"));
    expect_calls("fifo==1 six==1.16.0 six==1.17.0 sub==1 x==1.0+local.1 zope.interface==7.2 ");
    shell("test -z \"$(find . -name evil)\"");
}
END_TEST

/* What the gateway asks an index for could carry something out. */
START_TEST(who_has_no_network_has_no_wishes)
{
    char blocked[ID_SIZE] = "ws-0123456789abcdef0123456789abcde0";
    add_record(blocked, "blocked", true);
    in_cache("mkdir six && touch six/1.17.0-py3-none-any.http");
    shell("for w in ws-0123456789abcdef0123456789abcde0 ws-0123456789abcdef0123456789abcde1; do "
          "p=workspaces/$w/home/.cache/uv/wheels-v8/pypi/$w; mkdir -p $p && touch $p/1-py3.http; done");
    free(share("100 --set WORKSPACE_NETWORK=none"));
    expect_calls("");
    free(share("100"));
    expect_calls("six==1.17.0 ");
}
END_TEST

START_TEST(what_is_there_is_not_brought_again)
{
    in_cache("mkdir six refused && touch six/1.17.0-py3-none-any.http refused/1-py3-none-any.http");
    free(share("100"));
    expect_calls("refused==1 six==1.17.0 ");
    char *name = NULL;
    _cleanup_free_ char *refused = lines_of("refused"), *stamp = lines_of("stamp");
    ck_assert_msg(strtol(refused, &name, 10) > 1000000000 && !strcmp(name, " refused==1 "), "%s", refused);
    ck_assert_str_ne(stamp, "");
    shell("rm tools/.packages/calls");
    free(share("100"));
    expect_calls("");
    _cleanup_free_ char *same = lines_of("stamp");
    ck_assert_str_eq(stamp, same);
    /* It may have been the network: each is tried again an hour after it was refused itself. */
    in_cache("mkdir refused2 && touch refused2/1-py3-none-any.http");
    shell("now=$(date +%s) && printf '%s\\n' \"$((now - 3700)) refused==1\" \"$((now - 3500)) refused2==1\" "
          "'refused3==1' 'x refused==1' >tools/.packages/refused");
    free(share("100"));
    expect_calls("refused==1 ");
    shell("test $(wc -l <tools/.packages/refused) = 2");
}
END_TEST

/* Names of somebody's invention, without end. */
static void invent(const char *cache_of, const char *stem, int count)
{
    _cleanup_free_ char *line = xasprintf("c=workspaces/%s/home/.cache/uv/wheels-v8/pypi; rm -rf $c && mkdir "
                                          "-p $c && cd $c && mkdir $(seq -f %s%%.0f %d) && touch $(seq -f "
                                          "%s%%.0f/1-py3-none-any.http %d)",
                                          cache_of, stem, count, stem, count);
    shell(line);
}

/* So many packages of such names are shared. */
static void expect_shared(const char *stem, int count)
{
    _cleanup_free_ char *line =
        xasprintf("test $(ls -d tools/.packages/wheels-v8/pypi/%s* | wc -l) = %d", stem, count);
    shell(line);
}

/* So many names were asked for in all. */
static void expect_asked(int count)
{
    _cleanup_free_ char *line = xasprintf(
        "test $(sort -u tools/.packages/calls | wc -l) = %d || { cat tools/.packages/calls; exit 1; }",
        count);
    shell(line);
}

/* What is written of the hour of a principal, but for the time that it took. */
static void expect_charged(const char *principal, int asked, int refused)
{
    _cleanup_free_ char *path = path_of("run/packages.json");
    json_auto_t *all = json_load_file(path, 0, NULL);
    const json_t *one = json_object_get(all, principal);
    ck_assert_msg(json_integer_value(json_object_get(one, "asked")) == asked &&
                      json_integer_value(json_object_get(one, "refused")) == refused,
                  "%s, %d, %d: %s", principal, asked, refused, json_dumps(all, 0));
}

/* For whom so much was asked before, now. */
static void charge(const char *principal, int asked)
{
    _cleanup_free_ char *line = xasprintf(
        "printf '{\"%s\":{\"since\":%%d,\"asked\":%d,\"refused\":0}}' $(date +%%s) >run/packages.json",
        principal, asked);
    shell(line);
}

START_TEST(a_principal_whose_wishes_are_refused_is_heeded_no_more)
{
    char other[ID_SIZE];
    add_other(other);
    invent(ws, "refused", 1100);
    free(share("100"));
    expect_asked(10);
    invent(ws, "refusedtoo", 100);
    invent(other, "fine", 1);
    free(share("100"));
    expect_asked(11);
    shell("grep -q fine1==1 tools/.packages/calls");
    /* an hour later */
    shell("sed -i 's/\"since\":[0-9]*/\"since\":1000000000/g' run/packages.json");
    free(share("100"));
    expect_asked(21);
    shell("! grep -q 1000000000 run/packages.json");
    shell("echo '[' >run/packages.json");
    free(share("100"));
    expect_asked(31);
}
END_TEST

/* Else whoever makes workspaces and ends them would have no bound. */
START_TEST(a_new_workspace_does_not_begin_at_zero)
{
    char other[ID_SIZE] = "ws-0123456789abcdef0123456789abcde7", third[ID_SIZE] = "";
    add_record(other, "owner", false);
    invent(ws, "refused", 8);
    invent(other, "refusedtoo", 8);
    free(share("100"));
    expect_asked(10);
    end_record(ws);
    end_record(other);
    shell("rm -r workspaces/*");
    free(share("100"));
    add_record(third, "owner", false);
    invent(third, "third", 40);
    free(share("100"));
    expect_asked(10);
    expect_charged("owner", 10, 10);
}
END_TEST

/* One chore is all that comes: who brought a large set changes the cache no more. */
START_TEST(an_ordinary_set_comes_whole)
{
    invent(ws, "fine", 25);
    in_cache("for i in 1 2 3 4 5; do mkdir refused$i && : >refused$i/1-py3-none-any.http; done");
    free(share("100"));
    expect_shared("fine", 25);
    shell("test $(wc -l <tools/.packages/refused) = 5 && read id count mib <tools/.packages/stamp && "
          "test $count = 25");
    expect_charged("owner", 30, 5);
    /* a refusal is paid for once, and by whom it was for alone */
    in_cache("mkdir later && : >later/1-py3-none-any.http");
    free(share("100"));
    shell("test -e tools/.packages/wheels-v8/pypi/later");
    expect_charged("owner", 31, 5);
}
END_TEST

START_TEST(who_comes_meanwhile_is_served_next)
{
    char other[ID_SIZE];
    add_other(other);
    invent(ws, "many", 30);
    shell("(until test -e tools/.packages/calls; do sleep 0.05; done; "
          "c=workspaces/$OTHER/home/.cache/uv/wheels-v8/pypi/late; "
          "mkdir -p $c && : >$c/1-py3-none-any.http) >/dev/null 2>&1 &");
    free(share("100"));
    shell("grep -n late==1 tools/.packages/calls >at && test $(cut -d: -f1 at) -lt 25");
}
END_TEST

START_TEST(no_principal_keeps_another_waiting)
{
    static const char *const others[] = { "ws-0123456789abcdef0123456789abcde4",
                                          "ws-0123456789abcdef0123456789abcde5" };
    for (size_t i = 0; i < N_ELEMENTS(others); i++) {
        char id[ID_SIZE];
        snprintf(id, sizeof id, "%s", others[i]);
        add_record(id, i ? "second" : "first", false);
        invent(others[i], i ? "second" : "first", 2);
    }
    invent(ws, "many", 1100);
    charge("owner", 226);
    free(share("100"));
    shell("test $(head -n 14 tools/.packages/calls | grep -c many) = 10");
    expect_asked(34);
    expect_charged("owner", 256, 0);
    free(share("100"));
    expect_asked(34);
}
END_TEST

/* Whoever is first. Two, where a loaded machine takes longer for ten of the others' than for a slow one. */
START_TEST(what_takes_too_long_delays_others_by_one_package)
{
    char other[ID_SIZE];
    add_other(other);
    invent(ws, "slow", 3);
    invent(other, "fine", 12);
    _cleanup_free_ char *said = share("100 --set WORKSPACE_SHARED_PACKAGES_SECONDS=1");
    ck_assert_msg(strstr(said, "==1 took longer than 1 s"), "%s", said);
    expect_shared("fine", 12);
    shell("test $(cut -d' ' -f2 tools/.packages/refused | sort -u | grep -c '^slow[123]==1$') = 3 && "
          "test ! -e tools/.packages/.tmpSLOW");
    shell("test $(tac tools/.packages/calls | sed '1,/fine/d' | grep -c slow) -le 2");
    expect_charged("owner", 3, 3);
    expect_charged("other", 12, 0);
}
END_TEST

/* Nothing of it is written by the sandbox; what follows its reason was not tried. */
START_TEST(a_batch_that_fails_is_not_the_others)
{
    char other[ID_SIZE];
    add_other(other);
    invent(ws, "deadly", 5);
    invent(other, "fine", 2);
    _cleanup_free_ char *said = share("100");
    ck_assert_msg(strstr(said, "bringing shared packages failed"), "%s", said);
    expect_shared("fine", 2);
    expect_charged("owner", 1, 1);
    expect_charged("other", 2, 0);
}
END_TEST

START_TEST(those_who_are_counted_are_bounded)
{
    shell("now=$(date +%s); (printf '{\"p0\":{\"since\":%d}' $now; for i in $(seq 4095); do printf "
          "',\"p%d\":{\"since\":%d}' $i $now; done; echo '}') >run/packages.json");
    invent(ws, "fine", 1);
    free(share("100"));
    expect_calls("");
    shell("sed -i 's/\"p0\"/\"owner\"/' run/packages.json");
    free(share("100"));
    expect_calls("fine1==1 ");
}
END_TEST

START_TEST(a_full_one_takes_no_more_and_begins_anew_after_a_day)
{
    in_cache("mkdir large && touch large/1-py3-none-any.http");
    free(share("2"));
    _cleanup_free_ char *stamp = lines_of("stamp");
    in_cache("mkdir small && touch small/1-py3-none-any.http && rm -r large");
    _cleanup_free_ char *said = share("2");
    ck_assert_msg(strstr(said, "no room for 1 more"), "%s", said);
    expect_calls("large==1 ");
    shell("touch -d '2 days ago' tools/.packages/born");
    _cleanup_free_ char *anew = share("2");
    ck_assert_msg(strstr(anew, "begin anew"), "%s", anew);
    expect_calls("small==1 ");
    _cleanup_free_ char *other = lines_of("stamp");
    ck_assert_int_ne(strncmp(stamp, other, 16), 0);
    /* and amid a batch */
    invent(ws, "large", 3);
    free(share("2"));
    expect_shared("large", 1);
    expect_charged("owner", 3, 0);
    shell("test ! -e tools/.packages.old && test ! -e tools/.packages/archive-v0/large");
}
END_TEST

START_TEST(nothing_is_shared_where_nothing_should_be)
{
    in_cache("mkdir six && touch six/1.17.0-py3-none-any.http");
    free(share("0"));
    shell("test ! -e tools/.packages");
    shell("rm tools/uv");
    free(share("100"));
    shell("test ! -e tools/.packages");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        names_of_packages_are_taken_and_nothing_else,
        who_has_no_network_has_no_wishes,
        what_is_there_is_not_brought_again,
        a_principal_whose_wishes_are_refused_is_heeded_no_more,
        a_new_workspace_does_not_begin_at_zero,
        an_ordinary_set_comes_whole,
        who_comes_meanwhile_is_served_next,
        no_principal_keeps_another_waiting,
        what_takes_too_long_delays_others_by_one_package,
        a_batch_that_fails_is_not_the_others,
        those_who_are_counted_are_bounded,
        a_full_one_takes_no_more_and_begins_anew_after_a_day,
        nothing_is_shared_where_nothing_should_be,
    };
    return unit_run_tests("share", tests, N_ELEMENTS(tests), setup, teardown, 60);
}
