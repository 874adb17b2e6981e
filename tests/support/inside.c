/* Brings a source file into a sandbox by a command and compiles it there. */
#include "tests/support/inside.h"

#include "lib/base/buffer.h"
#include "lib/base/io.h"
#include "tests/support/must.h"

#include <fcntl.h>
#include <string.h>

void inside_compile(const struct instance *i, const char *ws, const char *name)
{
    _cleanup_buffer_ struct buffer source = BUFFER_INIT, command = BUFFER_INIT;
    struct exec_log log;
    struct error err = ERROR_INIT;
    char path[64];
    snprintf(path, sizeof path, "tests/http/%s.c", name);
    must(io_read_file(AT_FDCWD, path, 1 << 20, &source, &err) == 0, "%s: %s", path, err.message);
    buffer_printf(&command,
                  "cat >~/%s.c <<'END OF SOURCE'\n%s\nEND OF SOURCE\ncc -D_GNU_SOURCE -O1 -w -o ~/%s ~/%s.c",
                  name, buffer_text(&source), name, name);
    exec_run_command(i, ws, buffer_text(&command), &log);
    must(member_number(log.exit, "returncode") == 0, "%s", log.err);
    exec_log_clear(&log);
}

void inside_expect(const struct instance *i, const char *ws, const char *command, const char *output)
{
    struct exec_log log;
    exec_run_command(i, ws, command, &log);
    must(strcmp(log.out, output) == 0, "%s\nprinted: %s\nexpected: %s\nstderr: %s", command, log.out, output,
         log.err);
    exec_log_clear(&log);
}
