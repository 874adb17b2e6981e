/* Owns one filter program. Commands run as the agent's own user, and prlimit(2) asks for no more than that: a
 * command could take all descriptors or processor time from the agent and end the sandbox. */
#include "lib/agent/guard.h"

#include "lib/base/memory.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LOAD(member)       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define LOAD_HIGH(member)  BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member) + 4)
#define EQUAL(value, t, f) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, t, f)
#define RETURN(value)      BPF_STMT(BPF_RET | BPF_K, value)
#define I386_PRLIMIT64     340
#define WITHOUT_X32_BIT    0xbfffffff

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of an argument comes first");

static struct sock_filter program[] = {
#ifdef __x86_64__
    LOAD(arch),
    EQUAL(AUDIT_ARCH_I386, 0, 2),
    LOAD(nr),
    EQUAL(I386_PRLIMIT64, 3, 9),
#endif
    LOAD(nr),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, WITHOUT_X32_BIT),
    EQUAL(SYS_prlimit64, 0, 6),
    /* Oneself, or no new limit: allowed. */
    LOAD(args[0]),
    EQUAL(0, 4, 0),
    LOAD(args[2]),
    EQUAL(0, 0, 3),
    LOAD_HIGH(args[2]),
    EQUAL(0, 0, 1),
    RETURN(SECCOMP_RET_ALLOW),
    RETURN(SECCOMP_RET_ERRNO | EPERM),
};

void guard_install(void)
{
    struct sock_fprog filter = { N_ELEMENTS(program), program };
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}
