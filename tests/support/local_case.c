/* Owns how a test starts a sandbox of the local driver. Knows no promise of it. */
#include "tests/support/local_case.h"

#include <stdlib.h>

struct box box;

bool local_start(int kind, void (*change)(struct sandbox_spec *spec))
{
    setenv("WORKSPACE_TOKEN", "a-secret-token-of-the-host", 1);
    if (!box_prepare(&box, &box_kinds[kind]))
        return false;
    box_make_folders(&box, 20301);
    if (change)
        change(&box.spec);
    box_start(&box);
    return true;
}

pid_t local_child_pid(void)
{
    return (pid_t)json_integer_value(json_object_get(json_object_get(box.handle, "child"), "pid"));
}
