/* Owns waiting for an exec's end, within wait_seconds, and the members that tell it. Knows the store; neither
 * how the exec was begun nor what else its answer says. */
#include "lib/op/outcome.h"

#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "lib/op/render.h"

/* OP_DONE: answer now; *ret is the workspace's logs, *ret_bytes how long the exec's is. */
static int wait_for_end(struct call *call, struct events_reader **ret, uint64_t *ret_bytes, struct error *err)
{
    const char *exec_id = text_of(call->kept, "exec_id");
    struct events_reader *reader = call_reader(call, exec_id, err);
    int64_t now = clock_boottime_ms();
    struct exec_head head;

    if (!reader)
        return OP_FAILED;
    if (events_get_exec(reader, exec_id, &head, err) < 0) {
        exec_not_found(exec_id, err);
        return OP_FAILED;
    }
    if (call->park.deadline_ms == 0)
        call->park.deadline_ms =
            now + (int64_t)(json_number_value(json_object_get(call->in, "wait_seconds")) * 1000);
    *ret = reader;
    *ret_bytes = head.log_bytes;
    if (head.exit_seq > 0 || call->last || call->may_work || now >= call->park.deadline_ms)
        return OP_DONE;
    snprintf(call->park.exec_id, sizeof call->park.exec_id, "%s", exec_id);
    return OP_PARKED;
}

/* ---- what it wrote ---- */

#define CONDENSED_HERE                                                                                       \
    (16u << 10) /* two milliseconds at the very worst; what is longer goes to the thread                     \
                 */

struct outcome {
    struct call_work work;
    char exec_id[ID_SIZE];
    struct output_request request;
    struct output output;
};

static void condense_away(struct call_work *work)
{
    struct outcome *o = (struct outcome *)work;
    output_condense(&o->output, &o->request);
}

static void release(struct call_work *work)
{
    struct outcome *o = (struct outcome *)work;
    output_clear(&o->output);
    free(o);
}

static struct outcome *outcome_new(const struct output_request *request, const char *exec_id)
{
    struct outcome *o = xcalloc(1, sizeof *o);

    o->work = (struct call_work){ condense_away, release };
    snprintf(o->exec_id, sizeof o->exec_id, "%s", exec_id);
    o->request = *request;
    o->request.exec_id = o->exec_id;
    return o;
}

/* Short output is condensed at once; what is long is read when there is room for it, and condensed away. */
static int read_outcome(struct call *call, const struct output_request *request, struct outcome **ret,
                        struct error *err)
{
    struct events_reader *reader;
    uint64_t bytes;
    int rc = wait_for_end(call, &reader, &bytes, err);

    if (rc != OP_DONE)
        return rc;
    if (request->compact && bytes > CONDENSED_HERE && !call->may_work)
        return OP_AWAY;
    struct outcome *o = *ret = outcome_new(request, text_of(call->kept, "exec_id"));
    call->work = &o->work;
    if (output_read(reader, &o->request, &o->output, err) < 0)
        return exec_not_found(o->exec_id, err);
    if (request->compact && output_size(&o->output) > CONDENSED_HERE)
        return OP_AWAY;
    output_condense(&o->output, &o->request);
    return OP_DONE;
}

int outcome_collect(struct call *call, const struct output_request *request, const struct output **ret,
                    struct error *err)
{
    struct outcome *o = (struct outcome *)call->work;

    if (!o) {
        int rc = read_outcome(call, request, &o, err);
        if (rc != OP_DONE)
            return rc;
    }
    output_show(&o->output, &o->request);
    *ret = &o->output;
    return OP_DONE;
}

/* ---- rendering ---- */

static void render_end(struct buffer *out, const struct exec_head *head)
{
    bool over = head->exit_seq > 0;

    render_text(out, "state",
                exec_state_name(over || !exec_state_is_terminal(head->state) ? head->state : EXEC_RUNNING));
    render_text(out, "signal", over && head->signal ? process_signal_name(head->signal) : NULL);
    render_bool(out, "timed_out", over && head->timed_out);
    render_bool(out, "oom_killed", over && head->oom_killed);
    if (over)
        render_i64(out, "duration_ms", head->duration_ms);
    else
        render_raw(out, "duration_ms", "null");
}

void outcome_render(struct call *call, const struct output *output)
{
    const struct exec_head *head = &output->head;
    struct buffer *out = &call->body;

    render_text(out, "sandbox_id", call_sandbox_id(call));
    if (head->exit_seq > 0 && head->has_returncode)
        render_i64(out, "returncode", head->returncode);
    else
        render_raw(out, "returncode", "null");
    render_bytes(out, "stdout", output->streams[0].data, output->streams[0].length);
    render_bytes(out, "stderr", output->streams[1].data, output->streams[1].length);
    render_bool(out, "stdout_truncated", output->truncated[0]);
    render_bool(out, "stderr_truncated", output->truncated[1]);
    render_bool(out, "condensed", output->condensed[0] || output->condensed[1]);
    render_text(out, "workspace_id", text_of(call->workspace, "workspace_id"));
    render_end(out, head);
    render_text(out, "exec_id", head->id);
    render_u64(out, "next_cursor", output->next_cursor);
    render_text(out, "reason", head->reason[0] ? head->reason : NULL);
}
