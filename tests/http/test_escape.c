/* Hostile code in a sandbox: every attempt to get out of it, at its neighbours or at the gateway fails, harms
 * nobody else, and learns nothing. The attempts themselves are in hostile*.c, compiled inside. */
#include "lib/base/buffer.h"
#include "tests/support/inside.h"
#include "tests/support/suite.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static char ws[40], other[40];

static void make_workspaces(void)
{
    workspace_create(the, NULL, ws);
    workspace_create(the, NULL, other);
}

static void end_workspaces(void)
{
    workspace_terminate(the, ws);
    workspace_terminate(the, other);
}

static void expect(const char *workspace, const char *command, const char *output)
{
    inside_expect(the, workspace, command, output);
}

/* ---- one by one ---- */

static int listen_abstract(int type, const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    if (type == SOCK_STREAM)
        ck_assert_int_eq(listen(fd, 8), 0);
    return fd;
}

static int landlock_version(void)
{
    return (int)syscall(444, NULL, 0, 1);
}

/* By number, so that no name in the command could be what is found. */
static void add_secret(struct buffer *command, const char *format, ...)
{
    char path[400], part[300];
    struct stat status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(part, sizeof part, format, arguments);
    va_end(arguments);
    snprintf(path, sizeof path, "%s%s", instance_state(the), part);
    ck_assert_msg(stat(path, &status) == 0, "%s", path);
    buffer_printf(command, " %llu:%llu", (unsigned long long)status.st_dev,
                  (unsigned long long)status.st_ino);
}

START_TEST(every_attempt_is_refused)
{
    char name[64], datagram[80];
    struct exec_log log;
    struct buffer command = BUFFER_INIT;
    snprintf(name, sizeof name, "a-socket-of-the-host-%d", getpid());
    snprintf(datagram, sizeof datagram, "%s-datagram", name);
    /* Before Linux 6.12 nothing separates them where the network is not blocked. */
    bool fenced = landlock_version() >= 6;
    int fds[] = { fenced ? listen_abstract(SOCK_STREAM, name) : -1,
                  fenced ? listen_abstract(SOCK_DGRAM, datagram) : -1 };
    inside_compile(the, ws, "hostile");
    expect(other, "echo hidden > /workspace/secret; echo hidden > ~/secret", "");
    buffer_printf(&command, "~/hostile %s %s/fcgi.sock", name, instance_state(the));
    add_secret(&command, "");
    add_secret(&command, "/state");
    add_secret(&command, "/workspaces");
    add_secret(&command, "/workspaces/%s", ws);
    add_secret(&command, "/workspaces/%s/files", other);
    add_secret(&command, "/workspaces/%s/files/secret", other);
    exec_run(the, ws, make_json("{s:s, s:b}", "command", buffer_text(&command), "pty", _i), &log);
    ck_assert_msg(member_number(log.exit, "returncode") == 0 && strstr(log.out, " attempts"), "%s%s", log.out,
                  log.err);
    exec_log_clear(&log);
    buffer_free(&command);
    close(fds[0]);
    close(fds[1]);
    expect(ws, "echo alive", "alive\n");
}
END_TEST

/* A network namespace shows what sockets were bound as; nothing of it says where the state is, or who else
 * there is. The words come in halves, so that they are not found in the command itself. */
START_TEST(sockets_have_no_telling_names)
{
    char command[600];
    snprintf(command, sizeof command,
             "a='%.8s''%s'; b='%.12s''%s'; cat /proc/net/unix /proc/self/net/unix > /tmp/names; "
             "grep -c . /tmp/names | grep -c -x 0; grep -e $a -e $b /tmp/names; true",
             instance_state(the), instance_state(the) + 8, other, other + 12);
    expect(ws, command, "0\n");
}
END_TEST

/* ---- signals ---- */

static const char *const storms[] = {
    "kill(-1, 9)",
    "kill(-1, 19)",
    "[kill(-1, s) for s in list(range(1, 18)) + [20, 21, 22, 23, 24, 25, 26, 27, 28, 30, 31] + "
    "list(range(34, 65))]",
    "[kill(-1, s) for k in range(300) for s in (19, 9)]",
    "[kill(int(p), s) for p in os.listdir(\"/proc\") if p.isdigit() and int(p) != os.getpid() for s in (19, "
    "9)]",
};

/* Whoever of the sandbox is hit: afterwards a command runs, and what ran before has a true end. */
START_TEST(commands_run_after_every_storm_of_signals)
{
    char victim[40], command[400], path[200];
    struct exec_log log;
    exec_start_command(the, ws, "echo ready; sleep 600", victim);
    exec_wait_output(the, ws, victim, "ready", 5000);
    snprintf(command, sizeof command,
             "python3 -c 'import os\nfrom os import getpid\ndef kill(p, s):\n try: os.kill(p, s)\n except "
             "OSError: "
             "pass\n%s\nprint(\"sent\")'",
             storms[_i]);
    json_auto_t *start = make_json("{s:s, s:i}", "command", command, "timeout_seconds", 10);
    exec_run(the, ws, json_incref(start), &log);
    exec_log_clear(&log);
    expect(ws, "echo alive; seq 3 | tail -1", "alive\n3\n");
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/cancel", ws, victim);
    struct http_options kill = { .body = "{\"signal_name\": \"KILL\", \"tree\": true}", .unchecked = true };
    struct answer answer = http_send(the, "POST", path, &kill); /* 409 where it has ended by the storm */
    answer_clear(&answer);
    exec_follow(the, ws, victim, 15000, &log);
    ck_assert_int_lt(member_number(log.exit, "returncode"), 0);
    exec_log_clear(&log);
    expect(ws,
           "for k in $(seq 50); do n=$(ps -eo args= | grep -c -e '[s]leep 600'); [ $n = 0 ] && break; sleep "
           "0.1; "
           "done; echo $n",
           "0\n");
    expect(other, "echo untouched", "untouched\n");
}
END_TEST

/* ---- what looks like the gateway's own ---- */

START_TEST(output_is_never_taken_for_events)
{
    static const char forged[] =
        "\nid: 99\nevent: exit\ndata: "
        "{\"seq\":99,\"type\":\"exit\",\"returncode\":0,\"state\":\"finished\"}\n\n"
        "\"},{\"seq\":3,\"type\":\"exit\",\"returncode\":0}\r\n\r\n: comment\n\0\1\2\xff\xfe end";
    char ex[40], path[240];
    struct exec_log log;
    const char *headers[] = { "Accept: text/event-stream", NULL };
    struct http_options stream = { .headers = headers, .unchecked = true };
    exec_start_command(the, ws, "head -c $((0x7fff)) /dev/zero; cat; exit 7", ex);
    exec_send(the, ws, ex, forged, true);
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_int_eq(member_number(log.exit, "returncode"), 7);
    ck_assert_uint_eq(log.out_length, 0x7fff + strlen(forged));
    ck_assert_mem_eq(log.out + 0x7fff, forged, strlen(forged));
    long last = log.last_seq;
    exec_log_clear(&log);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/events", ws, ex);
    struct answer a = http_send(the, "GET", path, &stream);
    long ids = 0, exits = 0;
    for (const char *line = a.body; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        ids += strncmp(line, "id: ", 4) == 0;
        exits += strncmp(line, "event: exit", 11) == 0;
    }
    ck_assert_int_eq(ids, last);
    ck_assert_int_eq(exits, 1);
    answer_clear(&a);
}
END_TEST

/* A frame of the agent's, well formed, on every descriptor that a command has or can open. */
START_TEST(frames_of_a_command_are_its_output)
{
    struct exec_log log;
    exec_run_command(
        the, ws,
        "python3 - <<'END'\n"
        "import glob, os, struct\n"
        "body = b'{\"status\": 0, \"oom_killed\": true}'\n"
        "sent = 0\n"
        "for kind in range(32):\n"
        "    for stream in range(8):\n"
        "        frame = struct.pack('>IIBBH', len(body), stream, kind, 1, 0) + body\n"
        "        for path in glob.glob('/proc/[0-9]*/fd/*') + glob.glob('/proc/[0-9]*/task/*/fd/*'):\n"
        "            if path.split('/')[-1] in '12': continue\n"
        "            try:\n"
        "                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)\n"
        "                sent += os.write(fd, frame) > 0\n"
        "                os.close(fd)\n"
        "            except OSError: pass\n"
        "        os.write(2, frame)\n"
        "END\n"
        "exit 9",
        &log);
    ck_assert_int_eq(member_number(log.exit, "returncode"), 9);
    ck_assert(!member_flag(log.exit, "oom_killed"));
    ck_assert_uint_eq(log.err_length, 32 * 8 * (12 + 33));
    exec_log_clear(&log);
    expect(ws, "echo alive", "alive\n");
}
END_TEST

/* ---- what the agent executes ---- */

/* Each of these tells who ran it. */
#define WITNESS "grep -h -e ^Uid -e ^NoNewPrivs -e ^Seccomp: /proc/self/status /proc/$$/status >> /tmp/ran"
static const char plant[] =
    "mkdir -p ~/.local/bin ~/.config/git ~/.local/lib/python3.11/site-packages\n"
    "for f in .bashrc .profile .bash_profile .bash_login .bash_logout .inputrc .shrc; do echo '" WITNESS
    "' > ~/$f; done\n"
    "for f in bash sh git cat env id python3 ls sleep workspace-agent; do "
    "printf '#!/bin/bash -p\\n" WITNESS "\\n' > ~/.local/bin/$f; chmod +x ~/.local/bin/$f; done\n"
    "echo 'open(\"/tmp/ran\", \"a\").write(open(\"/proc/self/status\").read())' > "
    "~/.local/lib/python3.11/site-packages/usercustomize.py\n"
    "printf '[core]\\n pager = /workspace/evil\\n fsmonitor = /workspace/evil\\n' > ~/.gitconfig\n"
    "cat > /tmp/evil.c <<'END'\n"
    "#include <stdio.h>\n"
    "#include <string.h>\n"
    "__attribute__((constructor)) static void run(void)\n"
    "{\n"
    "    char line[200];\n"
    "    FILE *in = fopen(\"/proc/self/status\", \"r\"), *out = fopen(\"/tmp/ran\", \"a\");\n"
    "    while (in && out && fgets(line, sizeof line, in))\n"
    "        if (!strncmp(line, \"Uid\", 3) || !strncmp(line, \"NoNewPrivs\", 10) || !strncmp(line, "
    "\"Seccomp:\", 8))\n"
    "            fputs(line, out);\n"
    "}\n"
    "END\n"
    "/usr/bin/cc -shared -fPIC -o /workspace/evil.so /tmp/evil.c && ln -sf /workspace/evil.so "
    "/workspace/libc.so.6\n";

/* Whoever ran what was planted had no more than any command has. */
static void check_witnesses(bool some)
{
    struct exec_log log;
    exec_run(the, ws,
             make_json("{s:s, s:{s:s}}", "command",
                       "/usr/bin/wc -l < /tmp/ran; /usr/bin/grep -v -x -e 'NoNewPrivs:.1' -e 'Seccomp:.2' -e "
                       "'Uid:.1000.1000.1000.1000' /tmp/ran; > /tmp/ran",
                       "env", "HOME", "/tmp"),
             &log);
    char *end = NULL;
    long lines = strtol(log.out, &end, 10);
    ck_assert_msg(!some || lines > 0, "nothing that was planted ran: %s", log.err);
    ck_assert_msg(strcmp(end, "\n") == 0, "one of them had more: %s", end);
    exec_log_clear(&log);
}

START_TEST(what_it_executes_cannot_be_replaced)
{
    char ex[40], path[200];
    struct exec_log log;
    exec_run_command(the, ws, plant, &log);
    ck_assert_msg(member_number(log.exit, "returncode") == 0, "%s", log.err);
    exec_log_clear(&log);
    exec_run_command(the, ws, "/usr/bin/printf whole", &log);
    ck_assert_str_eq(log.out, "whole");
    ck_assert_int_eq(member_number(log.exit, "returncode"), 0);
    exec_log_clear(&log);
    check_witnesses(true);
    exec_start(the, ws, make_json("{s:s, s:b}", "command", "read -r line; /usr/bin/stty size", "pty", 1), ex);
    snprintf(path, sizeof path, "/api/workspaces/%s/realtime-execs/%s/resize", ws, ex);
    json_decref(api(the, 200, "POST", path, make_json("{s:i, s:i}", "rows", 33, "cols", 99)));
    exec_send(the, ws, ex, "\n", false);
    exec_follow(the, ws, ex, 10000, &log);
    ck_assert_ptr_nonnull(strstr(log.out, "33 99"));
    exec_log_clear(&log);
    check_witnesses(true);
    static const char *const variables[][2] = {
        { "LD_PRELOAD", "/workspace/evil.so" },
        { "LD_AUDIT", "/workspace/evil.so" },
        { "LD_LIBRARY_PATH", "/workspace" },
        { "BASH_ENV", "/home/workspace/.bashrc" },
        { "ENV", "/home/workspace/.bashrc" },
        { "PATH", "/home/workspace/.local/bin" },
        { "BASH_FUNC_exec%%", "() { /bin/echo taken; }" },
        { "BASH_FUNC_eval%%", "() { /bin/echo taken; }" },
        { "SHELLOPTS", "noexec" },
        { "IFS", "o" },
        { "HOME", "/nowhere" },
    };
    for (size_t k = 0; k < sizeof variables / sizeof variables[0]; k++) {
        exec_run(the, ws,
                 make_json("{s:s, s:{s:s}}", "command", ":", "env", variables[k][0], variables[k][1]), &log);
        ck_assert_msg(log.exit != NULL, "%s", variables[k][0]);
        exec_log_clear(&log);
        check_witnesses(false);
    }
    expect(other, "/bin/echo untouched", "untouched\n");
}
END_TEST

/* Whoever breaks the files that a shell reads first gets in again with another home. */
START_TEST(a_broken_profile_can_be_mended)
{
    struct exec_log log;
    expect(ws, "echo 'exit 7' > ~/.bash_profile; echo 'sleep 600' > ~/.profile", "");
    exec_run_command(the, ws, "echo never", &log);
    ck_assert_str_eq(log.out, "");
    ck_assert_int_eq(member_number(log.exit, "returncode"), 7);
    exec_log_clear(&log);
    exec_run(the, ws,
             make_json("{s:s, s:{s:s}}", "command",
                       "rm /home/workspace/.bash_profile /home/workspace/.profile", "env", "HOME", "/tmp"),
             &log);
    ck_assert_int_eq(member_number(log.exit, "returncode"), 0);
    exec_log_clear(&log);
    expect(ws, "echo again", "again\n");
}
END_TEST

/* ---- its own folders ---- */

static void stop(void)
{
    char path[100];
    snprintf(path, sizeof path, "/api/workspaces/%s/stop", ws);
    json_decref(api(the, 200, "POST", path, NULL));
}

START_TEST(a_closed_folder_does_not_lock_its_owner_out)
{
    static const char *const places[] = { "/workspace", "/home/workspace", "/workspace /home/workspace" };
    char command[200];
    struct exec_log log;
    snprintf(command, sizeof command, "echo kept > file; chmod 0 %s", places[_i]);
    expect(ws, command, "");
    for (int k = 0; k < 2; k++) {
        exec_run(the, ws, make_json("{s:s, s:s}", "command", "echo in", "workdir", "/"), &log);
        ck_assert_str_eq(log.out, "in\n");
        exec_log_clear(&log);
        stop(); /* and in a sandbox that starts with them */
    }
    exec_run(
        the, ws,
        make_json("{s:s, s:s}", "command", "chmod 700 /workspace ~; cat /workspace/file", "workdir", "/"),
        &log);
    ck_assert_str_eq(log.out, "kept\n");
    exec_log_clear(&log);
    expect(ws, "cat file; ls -A ~", "kept\n");
}
END_TEST

/* What a sandbox leaves behind is removed by a process that may do more than it. */
START_TEST(a_hostile_tree_is_removed_and_nothing_else)
{
    char hostile[40], path[200], guarded[400];
    struct stat status;
    workspace_create(the, NULL, hostile);
    expect(other, "echo theirs > file", "");
    snprintf(path, sizeof path, "ln -s %s/workspaces/%s/files ../out; ", instance_state(the), other);
    expect(
        hostile,
        "python3 - <<'END'\n"
        "import os\n"
        "os.symlink('../../../../../../../../tmp', 'up')\n"
        "os.symlink('/', 'root')\n"
        "os.symlink('..', 'dots')\n"
        "for n in ('new\\nline', 'x' * 255, '-rf', '\\xff', ' ', '*'): os.mkdir(n)\n"
        "for k in range(3000):\n"
        "    os.mkdir('d'); os.chdir('d')\n"
        "open('deep', 'w').close()\n"
        "os.chdir('/workspace')\n"
        "os.mkdir('closed'); open('closed/file', 'w').close(); os.mkdir('closed/in'); os.chmod('closed', 0)\n"
        "os.mkfifo('pipe')\n"
        "import socket\n"
        "socket.socket(socket.AF_UNIX).bind('socket')\n"
        "os.chmod('/workspace', 0); os.chmod('/home/workspace', 0)\n"
        "END",
        "");
    workspace_terminate(the, hostile);
    snprintf(path, sizeof path, "%s/workspaces/%s", instance_state(the), hostile);
    for (long long deadline = now_ms() + 10000; stat(path, &status) == 0 && now_ms() < deadline;)
        sleep_ms(50);
    ck_assert_int_ne(stat(path, &status), 0);
    snprintf(guarded, sizeof guarded, "%s/state", instance_state(the));
    ck_assert_int_eq(stat(guarded, &status), 0);
    expect(other, "cat file", "theirs\n");
}
END_TEST

/* ---- room ---- */

START_TEST(full_temporary_places_are_bounded)
{
    char small[40];
    struct exec_log log;
    workspace_create(the, make_json("{s:i, s:i}", "memory_mib", 128, "memory_limit_mib", 512), small);
    exec_run_command(
        the, small,
        "for d in /tmp /dev/shm /run; do mkdir -p $d/x 2>/dev/null; d=$d/x; [ -d $d ] || continue; "
        "head -c 2G /dev/zero > $d/big 2>/dev/null; for k in $(seq 20000); do : > $d/$k || break; done; "
        "done 2>/dev/null; du -smx --total /tmp /dev/shm /run 2>/dev/null | tail -1 | cut -f1",
        &log);
    ck_assert_msg(log.out_length == 0 || atol(log.out) <= 128 + 64 + 20, "%s", log.out);
    exec_log_clear(&log);
    expect(small, "echo still; head -c 100000 /dev/zero | wc -c", "still\n100000\n");
    expect(other, "echo x > /tmp/x; cat /tmp/x; df --output=pcent /tmp | tail -1 | tr -d ' '", "x\n1%\n");
    workspace_terminate(the, small);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("escape");
    TCase *c = tcase_create("one workspace and its neighbour");
    tcase_add_checked_fixture(c, make_workspaces, end_workspaces);
    tcase_set_timeout(c, 90);
    tcase_add_loop_test(c, every_attempt_is_refused, 0, 2);
    tcase_add_test(c, sockets_have_no_telling_names);
    tcase_add_loop_test(c, commands_run_after_every_storm_of_signals, 0,
                        (int)(sizeof storms / sizeof storms[0]));
    tcase_add_test(c, output_is_never_taken_for_events);
    tcase_add_test(c, frames_of_a_command_are_its_output);
    tcase_add_test(c, what_it_executes_cannot_be_replaced);
    tcase_add_test(c, a_broken_profile_can_be_mended);
    tcase_add_loop_test(c, a_closed_folder_does_not_lock_its_owner_out, 0, 3);
    tcase_add_test(c, a_hostile_tree_is_removed_and_nothing_else);
    tcase_add_test(c, full_temporary_places_are_bounded);
    suite_add_tcase(s, c);
    return suite_main(s, NULL);
}
