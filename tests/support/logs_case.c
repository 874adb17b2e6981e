/* Owns the state directory of the running test. Knows nothing of what the tests do to it. */
#include "tests/support/logs_case.h"

#include "lib/base/io.h"
#include "lib/base/log.h"
#include "tests/support/logs.h"
#include "tests/support/scratch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>

struct error logs_error;
char logs_workspace[ID_SIZE];

void logs_set_up(void)
{
    scratch_make();
    id_make(ID_WORKSPACE, logs_workspace);
    _cleanup_free_ char *log = xasprintf("%s/log", scratch);
    log_init("test", LOG_LEVEL_WARNING, log);
}

void logs_tear_down(void)
{
    _cleanup_free_ char *disk = xasprintf("%s/disk", scratch);
    umount2(disk, MNT_DETACH);
    error_clear(&logs_error);
    scratch_remove();
}

/* Where a forked child, which never frees it, still finds it: then it is no leak. */
static struct events_writer *volatile opened;

struct events_writer *logs_open_writer(void)
{
    return opened = logs_open(scratch, logs_workspace, 64 * KB, 64 * MB);
}

bool logs_told(const char *text)
{
    _cleanup_free_ char *path = xasprintf("%s/log", scratch);
    _cleanup_buffer_ struct buffer content = BUFFER_INIT;
    io_read_file(AT_FDCWD, path, 64 * MB, &content, NULL);
    return strstr(buffer_text(&content), text) != NULL;
}
