/* `warden`: the one for a state directory; with --chore, one piece of its work. */
#include "fcgi/commands.h"
#include "lib/warden/warden.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

static int usage(void)
{
    fputs("usage: workspace-fcgi warden [--chore NAME [WS] [--ready-fd N]]\n", stderr);
    return 2;
}

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
            return usage();
        if (end != NULL && *end != '\0')
            return usage();
    }
    if (ready_fd >= 0)
        fcntl(ready_fd, F_SETFD, FD_CLOEXEC);
    return warden_chore(config, argv[2], workspace_id, ready_fd);
}

int cmd_warden(const struct config *config, int argc, char **argv)
{
    char program[PATH_MAX];
    if (argc >= 3 && strcmp(argv[1], "--chore") == 0)
        return run_chore(config, argc, argv);
    if (argc != 1)
        return usage();
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length < 0)
        return 1;
    program[length] = '\0';
    return warden_run(config, program);
}
