/* Creating a workspace: what may be asked for, the rules between fields, the record that the warden gets, the
 * answer. Starting it is the keeper's. */
#include "lib/base/clock.h"
#include "lib/op/ops.h"
#include "lib/op/workspace_view.h"

#include <ctype.h>

static const struct field row_region = { NULL, FIELD_ARRAY, FIELD_RANGE(0, 20), .items = &row_text_item };
static const struct field row_package = { NULL, FIELD_STRING, .format = &format_package };
static const struct field row_cidr = { NULL, FIELD_STRING, .format = &format_cidr };
static const struct field row_domain = { NULL, FIELD_STRING, .format = &format_domain };
static const struct field row_tag = { NULL, FIELD_STRING, FIELD_RANGE(0, 500), .format = &format_no_nul };

#define ROW_OTHER_TEXT(member, said)                                                                         \
    {                                                                                                        \
        member, FIELD_STRING, .nullable = true, FIELD_RANGE(1, 200), .format = &format_no_nul, .text = said  \
    }
#define ROW_LIST(member, most, row, said)                                                                    \
    {                                                                                                        \
        member, FIELD_ARRAY, .nullable = true, FIELD_RANGE(0, most), .items = row, .text = said              \
    }

static const struct field create_params[] = {
    { "name", FIELD_STRING, .nullable = true, .format = &format_name,
      .text = "Name to recognise it by; by default workspace-...." },
    { "timeout_seconds", FIELD_INTEGER, FIELD_RANGE(60, 86400), .dflt = "3600",
      .text = "The workspace stops this long after its start; files stay, the next command or call on files "
              "starts it again." },
    { "idle_timeout_seconds", FIELD_INTEGER, .nullable = true, FIELD_RANGE(60, 86400), .dflt = "900",
      .text =
          "It stops after this long without a request or a running command; null = never for that reason." },
    { "cpu", FIELD_NUMBER, FIELD_RANGE(0.125, 64), .dflt = "2.0", .text = "CPUs to count on." },
    { "cpu_limit", FIELD_NUMBER, .nullable = true, FIELD_RANGE(0.125, 128), .dflt = "4.0",
      .text = "CPUs at most, not below cpu; null = no limit." },
    { "memory_mib", FIELD_INTEGER, FIELD_RANGE(128, 262144), .dflt = "4096",
      .text = "Memory to count on, in MiB." },
    { "memory_limit_mib", FIELD_INTEGER, .nullable = true, FIELD_RANGE(128, 524288), .dflt = "8192",
      .text = "Memory at most, in MiB, not below memory_mib; null = no limit." },
    ROW_OTHER_TEXT("gpu", "GPU kind and count." NOT_LOCAL),
    ROW_OTHER_TEXT("cloud", "Cloud provider." NOT_LOCAL),
    { "region", FIELD_STRING, .nullable = true, FIELD_RANGE(1, 200), .format = &format_no_nul,
      .also = &row_region, .text = "Region or list of regions." NOT_LOCAL },
    { "image_name", FIELD_STRING, .nullable = true, .format = &format_image_name,
      .text = "Named image; not together with image_id, apt_packages or pip_packages." NOT_LOCAL },
    { "image_id", FIELD_STRING, .nullable = true, .format = &format_image_id,
      .text = "Image by id (im-...); not together with image_name, apt_packages or pip_packages." NOT_LOCAL },
    ROW_LIST("apt_packages", 40, &row_package, "Debian packages to install into the image." NOT_LOCAL),
    ROW_LIST("pip_packages", 40, &row_package,
             "Python packages to install into the image, such as name==1.2." NOT_LOCAL),
    ROW_SECRET_NAMES("every command of the workspace"),
    { "volumes", FIELD_OBJECT, .nullable = true, FIELD_RANGE(0, 20), .items = &row_text_item,
      .keys = &format_mount_path, .text = "Volumes by the path where they are mounted." NOT_LOCAL },
    ROW_ENV,
    { "tags", FIELD_OBJECT, .nullable = true, FIELD_RANGE(0, 50), .items = &row_tag, .keys = &format_tag_key,
      .text = "Your own tags: text by name. managed-by, workspace-id, workspace-root and repo-* are the "
              "gateway's." },
    { "block_network", FIELD_BOOLEAN, .dflt = "false",
      .text = "No network at all; not together with the allow-lists." },
    ROW_LIST("outbound_cidr_allowlist", 100, &row_cidr,
             "Address ranges that may be reached, such as 10.0.0.0/8." NOT_LOCAL),
    ROW_LIST("outbound_domain_allowlist", 100, &row_domain,
             "Domains that may be reached: a host, *.host or *." NOT_LOCAL),
    ROW_LIST("inbound_cidr_allowlist", 100, &row_cidr, "Address ranges that may reach it." NOT_LOCAL),
    ROW_ENVIRONMENT_NAME,
    FIELD_END,
};

static const char *const image_modes[] = { "host",         "image_id", "named_image", "default_named_image",
                                           "inline_image", NULL };
static const struct field create_result[] = {
    RESULT_WORKSPACE_ID,
    RESULT_SANDBOX_ID,
    RESULT_ROOT,
    RESULT_RUNNING,
    RESULT_TEXT0("gpu", "GPU; null = none."),
    RESULT_NUMBER0("cpu", "CPUs to count on."),
    RESULT_INT0("memory_mib", "Memory to count on, in MiB."),
    { "image_mode", FIELD_STRING, .required = true, .choices = image_modes,
      .text = "Where its root file system comes from." },
    RESULT_BASICS,
    RESULT_LIMITS,
    FIELD_END,
};

/* a may not be below b, where both are given. */
static int check_limit(const json_t *in, const char *limit, const char *request, struct error *err)
{
    const json_t *a = json_object_get(in, limit), *b = json_object_get(in, request);
    const char *usual = field_find(create_params, limit)->dflt;

    if (!json_is_number(a) || !json_is_number(b) || json_number_value(a) >= json_number_value(b))
        return 0;
    return error_set(err, ERROR_INVALID, "%s (%.15g%s) must not be below %s (%.15g)", limit,
                     json_number_value(a), strtod(usual, NULL) == json_number_value(a) ? ", its default" : "",
                     request, json_number_value(b));
}

static const char *const allowlists[] = { "outbound_cidr_allowlist", "outbound_domain_allowlist",
                                          "inbound_cidr_allowlist" };

static int check_network(const json_t *in, struct error *err)
{
    for (size_t i = 0; i < N_ELEMENTS(allowlists); i++)
        if (is_true(in, "block_network") && is_given(in, allowlists[i]))
            return error_set(err, ERROR_INVALID, "block_network and %s exclude each other", allowlists[i]);
    return 0;
}

static int check_image(const json_t *in, struct error *err)
{
    bool name = is_given(in, "image_name"), id = is_given(in, "image_id");

    if (name && id)
        return error_set(err, ERROR_INVALID, "image_name and image_id exclude each other");
    if ((name || id) && (is_nonempty(in, "apt_packages") || is_nonempty(in, "pip_packages")))
        return error_set(err, ERROR_INVALID, "%s cannot be combined with apt_packages or pip_packages",
                         name ? "image_name" : "image_id");
    return 0;
}

static int check_tags(const json_t *in, struct error *err)
{
    json_t *value;
    const char *key;

    json_object_foreach(json_object_get(in, "tags"), key, value)
        if (!strcmp(key, "managed-by") || !strcmp(key, "workspace-id") || !strcmp(key, "workspace-root") ||
            !strncmp(key, "repo-", 5))
            return error_set(err, ERROR_CONFLICT, "tags: %.100s belongs to the gateway", key);
    return 0;
}

/* What no driver of this program has yet. Empty lists ask for nothing, but an empty allow-list would allow
 * nothing. */
static int check_supported(const struct config *config, const json_t *in, struct error *err)
{
    static const char *const given[] = { "gpu", "cloud", "region", "image_name", "image_id" };
    static const char *const nonempty[] = { "apt_packages", "pip_packages", "volumes" };

    for (size_t i = 0; i < N_ELEMENTS(given); i++)
        if (is_given(in, given[i]))
            return unsupported(config, given[i], err);
    for (size_t i = 0; i < N_ELEMENTS(nonempty); i++)
        if (is_nonempty(in, nonempty[i]))
            return unsupported(config, nonempty[i], err);
    for (size_t i = 0; i < N_ELEMENTS(allowlists); i++)
        if (is_given(in, allowlists[i]))
            return unsupported(config, allowlists[i], err);
    return check_secret_names(config, in, err);
}

/* Equal requests get equal forms: ranges without host bits, domains in lower case. */
static void normalise(json_t *in)
{
    json_t *item;
    size_t index;

    for (size_t i = 0; i < N_ELEMENTS(allowlists); i++)
        json_array_foreach(json_object_get(in, allowlists[i]), index, item) {
            _cleanup_free_ char *text = strstr(allowlists[i], "cidr")
                                            ? format_normalise_cidr(json_string_value(item))
                                            : xstrdup(json_string_value(item));
            for (char *at = text; at && *at; at++)
                *at = (char)tolower((unsigned char)*at);
            json_array_set_new(json_object_get(in, allowlists[i]), index, json_string(text));
        }
}

static int create_check(const struct config *config, json_t *in, struct error *err)
{
    if (check_limit(in, "cpu_limit", "cpu", err) < 0 ||
        check_limit(in, "memory_limit_mib", "memory_mib", err) < 0)
        return -1;
    if (check_network(in, err) < 0 || check_image(in, err) < 0 || check_tags(in, err) < 0 ||
        check_supported(config, in, err) < 0)
        return -1;
    normalise(in);
    return 0;
}

json_t *op_workspace_record(const struct config *config, const struct principal *principal, const json_t *in)
{
    char id[ID_SIZE], created[CLOCK_TEXT_SIZE];
    int64_t now = clock_wall_us();
    json_t *record, *tags;

    id_make(ID_WORKSPACE, id);
    clock_format(now, created);
    tags = view_own_tags(id);
    if (is_given(in, "tags"))
        json_object_update_missing(tags, json_object_get(in, "tags"));
    record = json_pack("{s:i, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "v", 1, "workspace_id", id,
                       "owner", principal->name, "state", "creating", "created_at", created, "created_us",
                       (json_int_t)now, "started_us", (json_int_t)0, "stopped_us", (json_int_t)0, "used_us",
                       (json_int_t)now, "expires_us", (json_int_t)0);
    json_object_update_new(record, json_pack("{s:n, s:n, s:n, s:s, s:s, s:O, s:o, s:n, s:n, s:n}", "reason",
                                             "returncode", "sandbox_id", "driver", config->driver, "root",
                                             WORKSPACE_ROOT, "spec", in, "tags", tags, "repo_path",
                                             "repo_slug", "repo_ref"));
    json_object_set_new(record, "name",
                        is_given(in, "name") ? json_incref(json_object_get(in, "name"))
                                             : json_sprintf("workspace-%.12s", id + 3));
    return record;
}

/* Answers with the first workspace where the key was used before. */
static int created_record(struct call *call, json_t **ret, struct error *err)
{
    const json_t *existing = json_object_get(call->kept, "existing");
    char digest[ID_HASH_SIZE];

    if (!existing) {
        const json_t *record = json_object_get(call->kept, "record");
        *ret = json_incref(record ? (json_t *)record : call->kept);
        return 0;
    }
    op_digest(call->op, call->in, digest);
    if (!text_of(existing, "digest") || strcmp(text_of(existing, "digest"), digest) != 0)
        return error_set(err, ERROR_CONFLICT, "this Idempotency-Key was used before with other parameters");
    return state_get_workspace(call->state, text_of(existing, "workspace_id"), ret, err);
}

static int create_run(struct call *call, struct error *err)
{
    json_auto_t *record = NULL;
    const json_t *spec;

    if (created_record(call, &record, err) < 0)
        return OP_FAILED;
    spec = json_object_get(record, "spec");
    call->result = json_object();
    view_add_identity(call->result, record);
    view_copy(call->result, "root", record, "root");
    json_object_set_new(call->result, "running", json_boolean(view_is_running(record)));
    view_copy(call->result, "gpu", spec, "gpu");
    view_copy(call->result, "cpu", spec, "cpu");
    view_copy(call->result, "memory_mib", spec, "memory_mib");
    json_object_set_new(call->result, "image_mode", json_string("host"));
    view_add_basics(call->result, record);
    view_add_limits(call->result, call->config, record);
    return OP_DONE;
}

const struct op op_create_workspace = {
    .id = "createRemoteWorkspace",
    .tool = "workspace_create",
    .title = "Create workspace",
    .toolset = "workspace",
    .method = "POST",
    .path = "/workspaces",
    .summary = "Create a sandboxed Linux workspace that lasts.",
    .description = "Call this first for a new task, then use its workspace_id with the other operations. "
                   "Files below /workspace and the home "
                   "directory last until the workspace is terminated, also when it stopped meanwhile.",
    .params = create_params,
    .example = "\"name\": \"demo\", \"idle_timeout_seconds\": 3600",
    .result = create_result,
    .flags = OP_OPEN_WORLD | OP_KEYED | OP_IN_ACTIONS,
    .check = create_check,
    .run = create_run,
    .action = OP_ACTION_CREATE,
};
