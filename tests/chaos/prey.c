/* Looks at /proc for the installation's processes, keeps the readers alive, and reaps what the dead leave to
 * the driver, which adopts all orphans. Ends nothing by itself but the readers. */
#include "tests/chaos/prey.h"

#include "lib/base/process.h"
#include "tests/support/instance_private.h"
#include "tests/support/must.h"
#include "tests/support/proc.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define READERS_MAX 16
#define MANY        512

static struct {
    unsigned count;
    int ledger_fd;
    bool ending;
    pid_t pids[READERS_MAX];
} readers;

static const struct {
    const char *name, *subcommand;
} roles[] = {
    [ROLE_WORKER] = { "worker", "serve" },  [ROLE_MASTER] = { "master", "serve" },
    [ROLE_WARDEN] = { "warden", "warden" }, [ROLE_KEEPER] = { "keeper", "keep" },
    [ROLE_BOX] = { "bubblewrap", "keep" },  [ROLE_AGENT] = { "agent", "keep" },
    [ROLE_FRONT] = { "front", "lighttpd" }, [ROLE_READER] = { "reader", NULL },
};
_Static_assert(N_ELEMENTS(roles) == ROLES, "each role has its row");

const char *prey_name(enum role role)
{
    return roles[role].name;
}

/* ws-... of a keeper's command line. */
static void read_workspace(pid_t pid, char *ret, size_t size)
{
    char path[40], text[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    ret[0] = '\0';
    if (file)
        fclose(file);
    text[length] = '\0';
    for (size_t at = 0; at < length; at += strlen(text + at) + 1)
        if (strncmp(text + at, "ws-", 3) == 0)
            snprintf(ret, size, "%s", text + at);
}

static size_t find_all(const struct instance *i, enum role role, pid_t *pids)
{
    size_t count = 0;
    if (role == ROLE_READER) {
        for (unsigned k = 0; k < readers.count; k++)
            if (readers.pids[k] > 0)
                pids[count++] = readers.pids[k];
        return count;
    }
    size_t all = instance_processes(i, roles[role].subcommand, pids, MANY);
    if (role != ROLE_WORKER && role != ROLE_MASTER)
        return all;
    for (size_t k = 0; k < all; k++)
        if ((proc_parent(pids[k]) == i->pid) == (role == ROLE_MASTER))
            pids[count++] = pids[k];
    return count;
}

static pid_t descend(enum role role, pid_t keeper)
{
    pid_t box = role == ROLE_KEEPER ? keeper : proc_first_child(keeper);
    return role == ROLE_AGENT && box > 0 ? proc_first_child(box) : box;
}

bool prey_find(const struct instance *i, enum role role, unsigned choice, struct prey *ret)
{
    pid_t pids[MANY];
    size_t count = find_all(i, role, pids);
    *ret = (struct prey){ .pidfd = -1 };
    if (count == 0)
        return false;
    pid_t pid = pids[choice % count];
    if (role == ROLE_KEEPER || role == ROLE_BOX || role == ROLE_AGENT) {
        read_workspace(pid, ret->workspace, sizeof ret->workspace);
        ret->place = ret->workspace[0] ? ledger_place(ret->workspace) : NULL;
        pid = descend(role, pid);
    }
    ret->pid = pid;
    ret->pidfd = pid > 0 ? process_pidfd_open(pid) : -1;
    return ret->pidfd >= 0;
}

/* ---- readers ---- */

static void start_reader(unsigned number)
{
    char descriptor[16], text[16];
    snprintf(descriptor, sizeof descriptor, "%d", readers.ledger_fd);
    snprintf(text, sizeof text, "%u", number);
    readers.pids[number] = fork();
    must(readers.pids[number] >= 0, "fork: %m");
    if (readers.pids[number] > 0)
        return;
    execl("/proc/self/exe", "chaos-reader", "reader", descriptor, text, (char *)NULL);
    _exit(127);
}

void readers_start(unsigned count, int ledger_fd)
{
    must_hold(count <= READERS_MAX);
    readers.count = count;
    readers.ledger_fd = ledger_fd;
    for (unsigned k = 0; k < count; k++)
        start_reader(k);
}

static void note_reader_end(unsigned number, const siginfo_t *info)
{
    readers.pids[number] = 0;
    if (info->si_code != CLD_KILLED || info->si_status != SIGKILL)
        if (info->si_code != CLD_EXITED || info->si_status != 0)
            fail("reader %u ended with %d (%d)", number, info->si_status, info->si_code);
    if (!readers.ending)
        start_reader(number);
}

void reap(pid_t run)
{
    siginfo_t info;
    /* `run` is instance.c's to wait for; as long as it lives it is not among those that ended. */
    while (memset(&info, 0, sizeof info),
           waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0) {
        if (info.si_pid == run) {
            fail("workspace-fcgi run ended with %d (%d)", info.si_status, info.si_code);
            return;
        }
        waitpid(info.si_pid, NULL, 0);
        for (unsigned k = 0; k < readers.count; k++)
            if (readers.pids[k] == info.si_pid)
                note_reader_end(k, &info);
    }
}

void readers_end(void)
{
    readers.ending = true;
    atomic_store(&ledger->closed, true);
    for (unsigned k = 0; k < readers.count; k++)
        if (readers.pids[k] > 0) {
            kill(readers.pids[k], SIGKILL); /* our own child, not reaped yet */
            waitpid(readers.pids[k], NULL, 0);
            readers.pids[k] = 0;
        }
}

unsigned children_left(pid_t run, char *first, size_t size)
{
    char path[64];
    unsigned count = 0;
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", getpid(), getpid());
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%d", &child) == 1) {
        char name[64] = "";
        if (child == run)
            continue;
        snprintf(path, sizeof path, "/proc/%d/comm", child);
        FILE *comm = fopen(path, "r");
        if (comm && fgets(name, sizeof name, comm) && count++ == 0)
            snprintf(first, size, "%d %.*s", child, (int)strcspn(name, "\n"), name);
        if (comm)
            fclose(comm);
    }
    if (file)
        fclose(file);
    return count;
}
