/* Owns the operator's command for tokens. A token is shown once, when it is made; the store has its hash
 * alone. Knows nothing of requests. */
#include "fcgi/cmd_token.h"

#include "fcgi/commands.h"
#include "fcgi/state_directory.h"

#include "lib/base/clock.h"
#include "lib/base/ids.h"
#include "lib/store/state.h"

#include <stdio.h>

#define TOKEN_PREFIX    "wsp_"
#define TOKEN_DIGITS    64 /* 256 bits */
#define TOKEN_ID_DIGITS 16
#define NAME_LIMIT      63

static int wrong_use(const char *problem)
{
    fprintf(stderr, "token: %s\n", problem);
    return COMMAND_WRONG_USE;
}

static int report(const struct error *err)
{
    fprintf(stderr, "token: %s\n", err->message);
    return 1;
}

/* ---- add ---- */
struct add_options {
    const char *name, *scopes, *workspace_id;
};

static bool is_name(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-");
    return length > 0 && length <= NAME_LIMIT && text[length] == '\0';
}

/* NULL where one is unknown or none is given. */
static json_t *parse_scopes(const char *text)
{
    static const char *const known[] = { "read", "write", "admin" };
    json_auto_t *scopes = json_array();
    size_t given = 0, used = 0;
    for (const char *p = text; *p; p += *p == ',')
        p += strcspn(p, ","), given++;
    for (size_t i = 0; i < N_ELEMENTS(known); i++) {
        const char *p = text;
        for (; *p; p += *p == ',') {
            size_t length = strcspn(p, ",");
            if (length == strlen(known[i]) && strncmp(p, known[i], length) == 0)
                break;
            p += length;
        }
        if (!*p)
            continue;
        used++;
        json_array_append_new(scopes, json_string(known[i]));
    }
    return given > 0 && used == given ? json_incref(scopes) : NULL;
}

/* 0, or a problem, which it has said. */
static int parse_add(int argc, char **argv, struct add_options *ret)
{
    *ret = (struct add_options){ .scopes = "read,write" };
    for (int i = 2; i < argc; i++) {
        if (argv[i][0] != '-' && !ret->name)
            ret->name = argv[i];
        else if (strcmp(argv[i], "--scope") == 0 && i + 1 < argc)
            ret->scopes = argv[++i];
        else if (strcmp(argv[i], "--workspace") == 0 && i + 1 < argc)
            ret->workspace_id = argv[++i];
        else {
            command_wrong_use(argv[0], argv[i]);
            return COMMAND_WRONG_USE;
        }
    }
    if (!ret->name || !is_name(ret->name))
        return wrong_use("NAME is 1 to 63 of letters, digits and . _ @ -");
    if (ret->workspace_id && !id_is_valid(ID_WORKSPACE, ret->workspace_id))
        return wrong_use("--workspace takes an id: ws- and 32 hexadecimal digits");
    return 0;
}

static json_t *make_record(const struct add_options *options, json_t *scopes, const char *hash)
{
    char id[3 + TOKEN_ID_DIGITS + 1] = "tk-", created[CLOCK_TEXT_SIZE];
    id_random_hex(id + 3, TOKEN_ID_DIGITS);
    clock_format(clock_wall_us(), created);
    json_t *record = json_pack("{s:i, s:s, s:s, s:O, s:s, s:s}", "v", 1, "id", id, "principal", options->name,
                               "scopes", scopes, "created_at", created, "hash", hash);
    if (options->workspace_id)
        json_object_set_new(record, "workspace_id", json_string(options->workspace_id));
    return record;
}

/* A token reaches its principal's workspaces alone. */
static int check_workspace(struct state *state, const struct add_options *options, struct error *err)
{
    json_auto_t *record = NULL;
    if (!options->workspace_id)
        return 0;
    if (state_get_workspace(state, options->workspace_id, &record, err) < 0)
        return err->code == ERROR_NOT_FOUND
                   ? error_set(err, ERROR_NOT_FOUND, "there is no workspace %s", options->workspace_id)
                   : -1;
    const char *owner = json_string_value(json_object_get(record, "owner"));
    if (!owner || strcmp(owner, options->name) != 0)
        return error_set(err, ERROR_INVALID, "%s belongs to %s: a token of %s would not reach it",
                         options->workspace_id, owner ? owner : "nobody", options->name);
    return 0;
}

static int check_add(int argc, char **argv)
{
    struct add_options options;
    if (parse_add(argc, argv, &options) != 0)
        return COMMAND_WRONG_USE;
    json_auto_t *scopes = parse_scopes(options.scopes);
    return scopes ? 0 : wrong_use("--scope takes read, write and admin, each once, with commas between");
}

static int add_token(struct state *state, int argc, char **argv)
{
    struct add_options options;
    _cleanup_error_ struct error err = ERROR_INIT;
    char token[sizeof TOKEN_PREFIX + TOKEN_DIGITS] = TOKEN_PREFIX, hash[ID_HASH_SIZE];
    if (parse_add(argc, argv, &options) != 0)
        return COMMAND_WRONG_USE;
    json_auto_t *scopes = parse_scopes(options.scopes);
    if (check_workspace(state, &options, &err) < 0)
        return report(&err);
    id_random_hex(token + strlen(token), TOKEN_DIGITS);
    id_hash(token, strlen(token), hash);
    json_auto_t *record = make_record(&options, scopes, hash);
    if (state_add_token(state, hash, record, &err) < 0)
        return report(&err);
    printf("%s\n", token);
    fprintf(stderr, "token %s of %s; it is not shown again\n",
            json_string_value(json_object_get(record, "id")), options.name);
    return fflush(stdout) == 0 ? 0 : 1;
}

/* ---- list, revoke ---- */
static const char *text_of(const json_t *record, const char *name)
{
    const char *text = json_string_value(json_object_get(record, name));
    return text ? text : "-";
}

static char *scopes_of(const json_t *record)
{
    _cleanup_buffer_ struct buffer out = BUFFER_INIT;
    size_t i;
    json_t *scope;
    json_array_foreach(json_object_get(record, "scopes"), i, scope) {
        buffer_append_text(&out, i ? "," : "");
        buffer_append_text(&out, json_is_string(scope) ? json_string_value(scope) : "?");
    }
    return xstrdup(buffer_text(&out));
}

enum { ID, PRINCIPAL, SCOPES, WORKSPACE, CREATED, COLUMNS };
struct row {
    char *cells[COLUMNS];
};

static struct row make_row(const json_t *record)
{
    return (struct row){ {
        [ID] = xstrdup(text_of(record, "id")),
        [PRINCIPAL] = xstrdup(text_of(record, "principal")),
        [SCOPES] = scopes_of(record),
        [WORKSPACE] = xstrdup(text_of(record, "workspace_id")),
        [CREATED] = xstrdup(text_of(record, "created_at")),
    } };
}

static int compare_rows(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    int order = strcmp(a->cells[PRINCIPAL], b->cells[PRINCIPAL]);
    if (order == 0)
        order = strcmp(a->cells[CREATED], b->cells[CREATED]);
    return order ? order : strcmp(a->cells[ID], b->cells[ID]);
}

/* rows[0] is the header. */
static void print_rows(struct row *rows, size_t count)
{
    int widths[COLUMNS] = { 0 };
    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < CREATED; c++)
            if (strlen(rows[i].cells[c]) > (size_t)widths[c])
                widths[c] = (int)strlen(rows[i].cells[c]);
    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < COLUMNS; c++)
            printf("%-*s%s", widths[c], rows[i].cells[c], c == CREATED ? "\n" : "  ");
}

static void print_tokens(const json_t *tokens)
{
    static const char *const titles[COLUMNS] = { "ID", "PRINCIPAL", "SCOPES", "WORKSPACE", "CREATED" };
    size_t count = json_array_size(tokens), i;
    _cleanup_free_ struct row *rows = xcalloc(count + 1, sizeof *rows);
    json_t *record;
    for (int c = 0; c < COLUMNS; c++)
        rows[0].cells[c] = xstrdup(titles[c]);
    json_array_foreach(tokens, i, record) {
        rows[i + 1] = make_row(record);
    }
    qsort(rows + 1, count, sizeof *rows, compare_rows);
    print_rows(rows, count + 1);
    for (i = 0; i <= count; i++)
        for (int c = 0; c < COLUMNS; c++)
            free(rows[i].cells[c]);
}

static int check_list(int argc, char **argv)
{
    return argc == 2 ? 0 : command_wrong_use(argv[0], argv[2]);
}

static int list_tokens(struct state *state, int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    json_auto_t *tokens = NULL;
    (void)argc, (void)argv;
    if (state_list_tokens(state, &tokens, &err) < 0)
        return report(&err);
    if (json_array_size(tokens) == 0)
        fputs("no tokens\n", stderr);
    else
        print_tokens(tokens);
    return fflush(stdout) == 0 ? 0 : 1;
}

static int check_revoke(int argc, char **argv)
{
    if (argc > 3)
        return command_wrong_use(argv[0], argv[3]);
    return argc == 3 ? 0 : wrong_use("revoke takes the id of a token, as list shows it");
}

static int revoke_token(struct state *state, int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    (void)argc;
    if (state_remove_token(state, argv[2], &err) < 0)
        return report(&err);
    fprintf(stderr, "token %s is revoked\n", argv[2]);
    return 0;
}

static const struct action {
    const char *name;
    bool makes;                          /* the state directory, where there is none */
    int (*check)(int argc, char **argv); /* 0, or a problem, which it has said */
    int (*run)(struct state *state, int argc, char **argv);
} actions[] = {
    { "add", true, check_add, add_token },
    { "list", false, check_list, list_tokens },
    { "revoke", false, check_revoke, revoke_token },
};

static int run(const struct config *config, const struct action *action, int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct state *state = NULL;
    if (action->check(argc, argv) != 0)
        return COMMAND_WRONG_USE;
    if (state_directory_enter(config, action->makes, &err) < 0)
        return report(&err);
    state = state_open(config->state_dir, &err);
    if (!state) {
        error_wrap(&err, "%s/state", config->state_dir);
        return report(&err);
    }
    int status = action->run(state, argc, argv);
    state_close(state);
    return status;
}

int cmd_token(const struct config *config, int argc, char **argv)
{
    for (size_t i = 0; argc >= 2 && i < N_ELEMENTS(actions); i++)
        if (strcmp(argv[1], actions[i].name) == 0)
            return run(config, &actions[i], argc, argv);
    return argc >= 2 ? command_wrong_use(argv[0], argv[1]) : wrong_use("add, list or revoke?");
}
