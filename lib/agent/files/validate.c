/* Owns asking a program of the sandbox about a content, as little trusted and as much restrained as a command
 * of a client: it may hang, write without end, or not be there. */
#include "lib/agent/files/validate.h"

#include "lib/agent/files/judge.h"
#include "lib/agent/supervise.h"
#include "lib/agent/syntax/syntax.h"
#include "lib/base/clock.h"
#include "lib/base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define SECONDS 8 /* for one content, whoever judges it */

static _Noreturn void become(const struct file_call_context *call, const char *const *argv, int input,
                             int output)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    process_reset_signals();
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(nowhere, 2) < 0)
        _exit(127);
    process_close_on_exec_from(3);
    if (fchdir(call->root.fd) < 0 || supervise_confine(call->rules) < 0)
        _exit(127);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

/* Gives content and takes the answer, whichever goes on, until the program closes its output. */
static void talk(int to, int from, struct bytes content, struct buffer *answer)
{
    int64_t until = clock_boottime_ms() + SECONDS * 1000, left;
    size_t sent = 0;
    fcntl(to, F_SETFL, O_NONBLOCK);
    while ((left = until - clock_boottime_ms()) > 0 && answer->length <= SYNTAX_ANSWER_MOST) {
        if (sent == content.length && to >= 0)
            close(STEAL_FD(to));
        struct pollfd fds[2] = { { from, POLLIN, 0 }, { to, POLLOUT, 0 } };
        if (poll(fds, 2, (int)left) <= 0)
            continue;
        if (fds[1].revents) {
            ssize_t put = write(to, content.data + sent, content.length - sent);
            sent = put > 0 ? sent + (size_t)put : errno == EAGAIN ? sent : content.length;
        }
        if (!fds[0].revents)
            continue;
        ssize_t got = read(from, buffer_reserve(answer, 1024), 1024);
        if (got <= 0)
            break;
        answer->length += (size_t)got;
    }
    memory_close_fd(&to);
}

/* An answer that did not come, or not whole, is an empty one. */
static void ask(const struct file_call_context *call, const char *path, struct bytes content,
                struct buffer *answer)
{
    const char *const *argv = syntax_program(path);
    int input[2] = { -1, -1 }, output[2] = { -1, -1 };
    if (!argv || pipe2(input, O_CLOEXEC) < 0 || pipe2(output, O_CLOEXEC) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0)
        become(call, argv, input[0], output[1]);
    close(input[0]);
    close(output[1]);
    if (pid < 0) {
        close(input[1]);
        close(output[0]);
        return;
    }
    talk(input[1], output[0], content, answer);
    close(output[0]);
    kill(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (answer->length > SYNTAX_ANSWER_MOST)
        answer->length = 0;
}

static void judge(const struct file_call_context *call, const char *path, struct bytes content,
                  struct syntax_verdict *ret)
{
    _cleanup_buffer_ struct buffer answer = BUFFER_INIT;
    if (content.length > JUDGE_HERE && syntax_reads(path))
        judge_apart(path, content, SECONDS, ret);
    else
        syntax_check(path, content, ret);
    if (ret->outcome != SYNTAX_ASK)
        return;
    ask(call, path, content, &answer);
    syntax_answer(path, content, (struct bytes){ buffer_text(&answer), answer.length }, ret);
}

static void tell(json_t *ret, const char *validated, const char *why)
{
    json_object_set_new(ret, "validated", json_string(validated));
    json_object_set_new(ret, "validation", why ? json_string(why) : json_null());
}

void file_validate_nothing(const struct file_call_context *call, json_t *ret)
{
    if (file_call_flag(call, "validate"))
        tell(ret, "skipped", "nothing changed");
    else
        tell(ret, "false", NULL);
}

int file_validate(const struct file_call_context *call, const char *path, struct bytes before,
                  struct bytes content, json_t *ret, struct error *err)
{
    struct syntax_verdict verdict, earlier;
    if (!file_call_flag(call, "validate")) {
        tell(ret, "false", NULL);
        return 0;
    }
    judge(call, path, content, &verdict);
    if (verdict.outcome == SYNTAX_INVALID && before.data) {
        judge(call, path, before, &earlier);
        syntax_weigh(&earlier, &verdict);
    }
    if (verdict.outcome == SYNTAX_INVALID)
        return error_set(err, ERROR_INVALID, "%s. File was NOT written. (validate false writes it as it is.)",
                         verdict.message);
    bool valid = verdict.outcome == SYNTAX_VALID;
    tell(ret, valid ? "true" : "skipped", valid ? NULL : verdict.message);
    return 0;
}
