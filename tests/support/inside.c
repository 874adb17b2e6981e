/* Brings source files into a sandbox by a command and compiles them there. */
#include "tests/support/inside.h"

#include "lib/base/buffer.h"
#include "lib/base/io.h"
#include "tests/support/must.h"

#include <fcntl.h>
#include <glob.h>
#include <string.h>

static void add_file(struct buffer *command, const char *path)
{
    _cleanup_buffer_ struct buffer source = BUFFER_INIT;
    struct error err = ERROR_INIT;
    must(io_read_file(AT_FDCWD, path, 1 << 20, &source, &err) == 0, "%s: %s", path, err.message);
    buffer_printf(command, "cat >~/source/%s <<'END OF SOURCE'\n%s\nEND OF SOURCE\n", path,
                  buffer_text(&source));
}

/* Includes are written from the root in what is brought, too. */
void inside_compile(const struct instance *i, const char *ws, const char *name)
{
    _cleanup_buffer_ struct buffer command = BUFFER_INIT;
    struct exec_log log;
    glob_t files;
    char pattern[64];
    snprintf(pattern, sizeof pattern, "tests/http/%s*.[ch]", name);
    must(glob(pattern, 0, NULL, &files) == 0, "%s: nothing", pattern);
    buffer_append_text(&command, "mkdir -p ~/source/tests/http\n");
    for (size_t at = 0; at < files.gl_pathc; at++)
        add_file(&command, files.gl_pathv[at]);
    globfree(&files);
    buffer_printf(&command,
                  "cc -D_GNU_SOURCE -O1 -w -I ~/source -o ~/%s ~/source/tests/http/%s*.c && rm -r ~/source",
                  name, name);
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
