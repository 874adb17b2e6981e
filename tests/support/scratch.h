/* A directory of its own for each test, under TMPDIR, removed at the end. */
#ifndef SUPPORT_SCRATCH_H
#define SUPPORT_SCRATCH_H

/* The path, "/tmp/workspace-test-XXXXXX"; valid until scratch_remove. Fixtures of Check. */
extern char scratch[64];
void scratch_make(void);
void scratch_remove(void);

#endif
