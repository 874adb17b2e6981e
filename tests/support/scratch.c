/* Owns the scratch directory of a test. */
#include "tests/support/scratch.h"

#include "lib/base/io.h"

#include <fcntl.h>
#include <stdio.h>

char scratch[64];

void scratch_make(void)
{
    const char *parent = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%.40s/workspace-test-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(scratch))
        abort();
}

void scratch_remove(void)
{
    io_remove_tree(AT_FDCWD, scratch, NULL);
}
