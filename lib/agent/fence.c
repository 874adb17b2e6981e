/* Owns one Landlock rule. Abstract UNIX sockets belong to a network namespace, and a sandbox may share that
 * of the host, where session buses and container managers listen: inside the fence they are still found,
 * outside they are not. It is put around the agent, so that commands find each other's. */
#include "lib/agent/fence.h"

#include "lib/base/memory.h"

#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define CALL_LANDLOCK_CREATE_RULESET 444
#define CALL_LANDLOCK_RESTRICT_SELF  446

/* As of Linux 6.12; the headers may be older. */
struct ruleset {
    uint64_t handled_access_fs, handled_access_net, scoped;
};
#define SCOPE_ABSTRACT_UNIX_SOCKET (1u << 0)

void fence_install(void)
{
    const struct ruleset rules = { .scoped = SCOPE_ABSTRACT_UNIX_SOCKET };
    _cleanup_close_ int fd = (int)syscall(CALL_LANDLOCK_CREATE_RULESET, &rules, sizeof rules, 0);
    if (fd < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return;
    syscall(CALL_LANDLOCK_RESTRICT_SELF, fd, 0);
}
