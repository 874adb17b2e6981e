/* Owns the written list: all that a sandbox sees of the host, everything read-only, and the few files made
 * for it. A file is copied where it is small (a mount costs more than a page), only regular files that
 * everybody may read. Never /home, /root, /var, /srv, /opt, /sys, never profile.d, never a file that may hold
 * credentials (npmrc, pip.conf, gitconfig, settings.xml). Knows nothing of processes and limits. */
#include "lib/driver/local/root.h"

#include "lib/driver/local/packages.h"
#include "lib/driver/local/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

enum how { COPY, BIND, LINK_OR_BIND };
struct shared {
    enum how how;
    const char *pattern; /* glob(7) */
};
#define COPY_MAX (128 << 10)

static const struct shared list[] = {
    { BIND, "/usr" },
    { LINK_OR_BIND, "/bin" },
    { LINK_OR_BIND, "/sbin" },
    { LINK_OR_BIND, "/lib" },
    { LINK_OR_BIND, "/lib64" },
    /* the loader */
    { COPY, "/etc/ld.so.cache" },
    { COPY, "/etc/ld.so.conf" },
    { COPY, "/etc/ld.so.conf.d/*.conf" },
    { BIND, "/etc/alternatives" },
    /* names and time */
    { COPY, "/etc/nsswitch.conf" },
    { COPY, "/etc/resolv.conf" },
    { COPY, "/etc/host.conf" },
    { COPY, "/etc/gai.conf" },
    { COPY, "/etc/protocols" },
    { COPY, "/etc/services" },
    { COPY, "/etc/networks" },
    { COPY, "/etc/localtime" },
    { COPY, "/etc/timezone" },
    /* certificates: never the private half */
    { BIND, "/etc/ssl/certs" },
    { COPY, "/etc/ssl/openssl.cnf" },
    { BIND, "/etc/pki/tls/certs" },
    { BIND, "/etc/pki/ca-trust/extracted" },
    { BIND, "/etc/ca-certificates/extracted" },
    /* programs that fail or misbehave without their file */
    { COPY, "/etc/mime.types" },
    { COPY, "/etc/terminfo/*/*" },
    { COPY, "/etc/inputrc" },
    { COPY, "/etc/magic" },
    { COPY, "/etc/magic.mime" },
    { COPY, "/etc/locale.alias" },
    { COPY, "/etc/shells" },
    { COPY, "/etc/debian_version" },
    { COPY, "/etc/lsb-release" },
    { COPY, "/etc/os-release" },
    { COPY, "/etc/python3*/*" },
    { COPY, "/etc/perl/*" },
    { COPY, "/etc/perl/Net/*" },
    { COPY, "/etc/vim/vimrc*" },
    { BIND, "/etc/fonts" },
    { BIND, "/etc/java-*-openjdk" },
};

static const char profile[] =
    "# The environment is set by the gateway: here only what is missing is filled in.\n"
    "export PATH=\"${PATH-/usr/local/bin:/usr/bin:/bin:" SANDBOX_NAMES ":" SANDBOX_TOOLS "}\"\n"
    "export HOME=\"${HOME-" SANDBOX_HOME "}\"\n"
    "export LANG=\"${LANG-C.UTF-8}\"\n";
static const char passwd[] = "root:x:0:0:root:/root:/usr/sbin/nologin\n" SANDBOX_USER ":x:" SANDBOX_UID
                             ":" SANDBOX_UID ":Workspace:" SANDBOX_HOME ":/bin/bash\n"
                             "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
/* The host's own may hold credentials. A clone gets its large files. */
static const char gitconfig[] = "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n"
                                "\tsmudge = git-lfs smudge -- %f\n\tprocess = git-lfs filter-process\n"
                                "\trequired = true\n";
static const char group[] = "root:x:0:\ntty:x:5:\n" SANDBOX_USER ":x:" SANDBOX_UID ":\nnogroup:x:65534:\n";

/* Anything that is not a small regular file for everybody is left out: absent is better than a surprise. */
static int copy_file(struct vector *v, const char *path, struct error *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return 0;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || !(status.st_mode & S_IROTH) ||
        status.st_size > COPY_MAX) {
        close(fd);
        return 0;
    }
    return vector_add_file(v, fd, path, err);
}

static int bind_path(struct vector *v, const char *path)
{
    vector_add(v, "--ro-bind", path, path, NULL);
    return 0;
}

static int link_or_bind(struct vector *v, const char *path)
{
    char target[256];
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    if (length < 0)
        return bind_path(v, path);
    target[length] = '\0';
    vector_add(v, "--symlink", target, path, NULL);
    return 0;
}

static int share(struct vector *v, enum how how, const char *path, struct error *err)
{
    switch (how) {
    case COPY:
        return copy_file(v, path, err);
    case BIND:
        return bind_path(v, path);
    case LINK_OR_BIND:
        return link_or_bind(v, path);
    }
    return 0;
}

static int share_all(struct vector *v, struct error *err)
{
    int result = 0;
    for (size_t i = 0; i < N_ELEMENTS(list) && !result; i++) {
        glob_t found;
        if (glob(list[i].pattern, 0, NULL, &found))
            continue;
        for (size_t j = 0; j < found.gl_pathc && !result; j++)
            result = share(v, list[i].how, found.gl_pathv[j], err);
        globfree(&found);
    }
    return result;
}

/* The host's names, and the sandbox's own, so that looking it up never goes out. */
static int add_hosts(struct vector *v, const char *hostname, struct error *err)
{
    char data[64 << 10];
    _cleanup_buffer_ struct buffer text = BUFFER_INIT;
    _cleanup_close_ int fd = open("/etc/hosts", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, data, sizeof(data));
    buffer_append(&text, data, length > 0 ? (size_t)length : 0);
    buffer_printf(&text, "%s127.0.1.1\t%s\n", length > 0 && data[length - 1] != '\n' ? "\n" : "", hostname);
    return vector_add_text(v, buffer_text(&text), "/etc/hosts", err);
}

static int add_made_files(struct vector *v, const char *hostname, struct error *err)
{
    static const struct {
        const char *text, *path;
    } made[] = { { profile, "/etc/profile" }, { passwd, "/etc/passwd" }, { group, "/etc/group" } };
    for (size_t i = 0; i < N_ELEMENTS(made); i++)
        if (vector_add_text(v, made[i].text, made[i].path, err))
            return -1;
    _cleanup_free_ char *lfs = tools_find_in_usr("git-lfs");
    if (lfs && vector_add_text(v, gitconfig, "/etc/gitconfig", err))
        return -1;
    vector_add(v, "--symlink", "../proc/self/mounts", "/etc/mtab", NULL);
    return add_hosts(v, hostname, err);
}

static void add_tmpfs(struct vector *v, const char *path, const char *mode, int64_t mib)
{
    vector_add(v, "--perms", mode, "--size", NULL);
    vector_add_printf(v, "%lld", (long long)mib << 20);
    vector_add(v, "--tmpfs", path, NULL);
}

/* Last on PATH: what the host calls otherwise, and what it does not have. */
static int add_tools(const struct root *root, struct vector *v, struct error *err)
{
    vector_add(v, "--dir", SANDBOX_NAMES, NULL);
    for (size_t i = 0; i < tool_count; i++) {
        _cleanup_free_ char *other = tools[i].host_name ? tools_find_in_usr(tools[i].host_name) : NULL;
        if (!other)
            continue;
        vector_add(v, "--symlink", other, NULL);
        vector_add_printf(v, SANDBOX_NAMES "/%s", tools[i].name);
    }
    if (root->tools)
        vector_add(v, "--ro-bind", root->tools, SANDBOX_TOOLS, NULL);
    return root->packages ? packages_describe(v, err) : 0;
}

int root_describe(const struct root *root, struct vector *v, struct error *err)
{
    if (share_all(v, err) || add_made_files(v, root->hostname, err))
        return -1;
    vector_add(v, "--proc", "/proc", "--dev", "/dev", NULL);
    /* What belongs to the sandbox's own IPC and PID namespaces could be set there, limits among them. */
    vector_add(v, "--ro-bind", "/proc/sys", "/proc/sys", NULL);
    add_tmpfs(v, "/dev/shm", "1777", root->shm_mib);
    add_tmpfs(v, "/tmp", "1777", root->tmp_mib);
    add_tmpfs(v, "/run", "0755", 16);
    /* A mount of its own: the directory of a mount point could be renamed in /run, a mount point cannot. */
    add_tmpfs(v, "/run/workspace", "0755", 1);
    if (root->agent)
        vector_add(v, "--ro-bind", root->agent, SANDBOX_AGENT, NULL);
    if (root->ripgrep)
        vector_add(v, "--ro-bind", root->ripgrep, SANDBOX_RIPGREP, NULL);
    if (add_tools(root, v, err))
        return -1;
    vector_add(v, "--remount-ro", "/run/workspace", "--bind", root->files, SANDBOX_WORKSPACE, NULL);
    if (root->home)
        vector_add(v, "--bind", root->home, SANDBOX_HOME, NULL);
    else
        add_tmpfs(v, SANDBOX_HOME, "0700", root->tmp_mib);
    vector_add(v, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", SANDBOX_WORKSPACE, NULL);
    return 0;
}

const char *const *root_patterns(void)
{
    static const char *patterns[N_ELEMENTS(list) + 1];
    for (size_t i = 0; i < N_ELEMENTS(list); i++)
        patterns[i] = list[i].pattern;
    return patterns;
}
