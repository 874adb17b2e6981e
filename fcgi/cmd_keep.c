/* `keep WS`: one workspace's keeper. Started by the warden. */
#include "fcgi/commands.h"

#include "lib/base/log.h"
#include "lib/keeper/keeper.h"
#include "lib/op/op.h"

#include <errno.h>
#include <fcntl.h>

static int parse_fd(const char *text)
{
    char *end;
    long fd = strtol(text, &end, 10);
    if (end == text || *end != '\0' || fd < 0 || fd > 1023 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
        return -1;
    return (int)fd;
}

int cmd_keep(const struct config *config, int argc, char **argv)
{
    struct keeper_options options = { .config = config, .spec_fd = -1, .ready_fd = -1, .dispatch = op_keep };
    for (int i = 1; i < argc; i++) {
        int *fd = strcmp(argv[i], "--spec-fd") == 0    ? &options.spec_fd
                  : strcmp(argv[i], "--ready-fd") == 0 ? &options.ready_fd
                                                       : NULL;
        if (fd == NULL && options.workspace_id == NULL)
            options.workspace_id = argv[i];
        else if (fd == NULL || ++i == argc || (*fd = parse_fd(argv[i])) < 0)
            return command_wrong_use(argv[0], argv[i]);
    }
    if (!id_is_valid(ID_WORKSPACE, options.workspace_id))
        return command_wrong_use(argv[0], options.workspace_id);
    log_take_stderr();
    return keeper_run(&options);
}
