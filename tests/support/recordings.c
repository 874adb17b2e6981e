/* Owns: reading recorded outputs. tests/cases/outputs/INDEX has a line for each command: name, kind, half,
 * command; the files are NAME.pipe and NAME.pty. */
#include "tests/support/recordings.h"

#include "lib/base/io.h"

#include <fcntl.h>
#include <stdio.h>

#define FOLDER "tests/cases/outputs/"
enum { RECORDING_MAX = 500000, TERMINAL_COLUMNS = 120 };

static bool load_one(struct recordings *all, const char *name, const char *kind, const char *half,
                     const char *how)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    struct recording new = { .reported = strcmp(half, "report") == 0 };
    snprintf(new.name, sizeof new.name, "%s.%s", name, how);
    new.columns = strcmp(how, "pty") == 0 ? TERMINAL_COLUMNS : 0;
    snprintf(new.kind, sizeof new.kind, "%s", kind);
    _cleanup_free_ char *path = xasprintf(FOLDER "%s", new.name);
    if (access(path, R_OK) < 0)
        return false;
    if (io_read_file(AT_FDCWD, path, RECORDING_MAX, &new.raw, &err) < 0) {
        fprintf(stderr, "%s: %s\n", path, err.message);
        exit(1);
    }
    all->rows = xreallocarray(all->rows, all->count + 1, sizeof *all->rows);
    all->rows[all->count++] = new;
    return true;
}

void recordings_load(struct recordings *all)
{
    char line[512], name[40], kind[24], half[8];
    FILE *index = fopen(FOLDER "INDEX", "re");
    *all = (struct recordings){ .count = 0 };
    while (index != NULL && fgets(line, sizeof line, index) != NULL) {
        if (line[0] == '#' || sscanf(line, "%39s %23s %7s", name, kind, half) != 3)
            continue;
        bool pipe = load_one(all, name, kind, half, "pipe"), pty = load_one(all, name, kind, half, "pty");
        if (!pipe && !pty) {
            fprintf(stderr, FOLDER "%s: no recording\n", name);
            exit(1);
        }
    }
    if (index == NULL) {
        perror(FOLDER "INDEX");
        exit(1);
    }
    fclose(index);
}

void recordings_free(struct recordings *all)
{
    for (size_t at = 0; at < all->count; at++)
        buffer_free(&all->rows[at].raw);
    free(all->rows);
}
