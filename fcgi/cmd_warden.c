/* `warden`: the one for a state directory; with --chore, one piece of its work. */
#include "fcgi/commands.h"

#include "fcgi/options.h"
#include "fcgi/state_directory.h"
#include "lib/warden/warden.h"

#include <fcntl.h>

static int run_chore(const struct config *config, int argc, char **argv)
{
    const char *workspace_id = NULL;
    int ready_fd = -1;
    for (int i = 3; i < argc; i++) {
        char *end = NULL;
        if (strcmp(argv[i], "--ready-fd") == 0 && i + 1 < argc)
            ready_fd = (int)strtol(argv[++i], &end, 10);
        else if (workspace_id == NULL)
            workspace_id = argv[i];
        else
            return command_wrong_use(argv[0], argv[i]);
        if (end != NULL && *end != '\0')
            return command_wrong_use(argv[0], argv[i]);
    }
    if (ready_fd >= 0)
        fcntl(ready_fd, F_SETFD, FD_CLOEXEC);
    return warden_chore(config, argv[2], workspace_id, ready_fd);
}

static int parse_flags(int argc, char **argv, unsigned *ret)
{
    static const struct {
        const char *option;
        unsigned flag;
    } known[] = { { "--wait", WARDEN_WAITS }, { "--spare", WARDEN_SPARE }, { "--fresh", WARDEN_FRESH } };

    *ret = 0;
    for (int i = 1; i < argc; i++) {
        unsigned flag = 0;
        for (size_t k = 0; k < N_ELEMENTS(known); k++)
            flag |= strcmp(argv[i], known[k].option) == 0 ? known[k].flag : 0;
        if (flag == 0)
            return command_wrong_use(argv[0], argv[i]);
        *ret |= flag;
    }
    if (!(*ret & WARDEN_SPARE))
        *ret |= WARDEN_FRESH;
    return 0;
}

int cmd_warden(const struct config *config, int argc, char **argv)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_free_ char *program = options_program();
    unsigned flags;

    if (argc >= 3 && strcmp(argv[1], "--chore") == 0)
        return run_chore(config, argc, argv);
    if (parse_flags(argc, argv, &flags) != 0)
        return COMMAND_WRONG_USE;
    if (state_directory_make(config, &err) == 0)
        return warden_run(config, program, flags);
    fprintf(stderr, "warden: %s\n", err.message);
    return 1;
}
