/* Makes the state directory for whoever will work in it. Looks at nothing inside. */
#include "fcgi/state_directory.h"

#include "lib/base/io.h"

#include <pwd.h>
#include <sys/stat.h>

int state_directory_make(const struct config *config, struct error *err)
{
    const struct passwd *user = geteuid() == 0 && config->user ? getpwnam(config->user) : NULL;
    struct stat st;

    if (stat(config->state_dir, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    if (io_ensure_directory(config->state_dir, 0750, err) < 0)
        return -1;
    if (user != NULL && chown(config->state_dir, user->pw_uid, user->pw_gid) < 0)
        return error_set(err, ERROR_INTERNAL, "the new state directory cannot be given to %s", user->pw_name);
    return 0;
}
