/* Makes the state directory for whoever will work in it. Looks at nothing inside. */
#include "fcgi/state_directory.h"

#include "fcgi/options.h"
#include "fcgi/reach.h"
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

/* The settings' file is read again on a reload. */
int state_directory_reach(const struct config *config, struct error *err)
{
    _cleanup_free_ char *programs = options_program();
    const struct options *options = options_of_process(); /* NULL where a test calls a command */
    const char *file = options != NULL ? options->config : NULL;
    const char *const paths[] = { config->state_dir, programs, file };

    *strrchr(programs, '/') = 0;
    return reach_paths(config, paths, file != NULL && *file == '/' ? 3 : 2, err);
}

int state_directory_enter(const struct config *config, struct error *err)
{
    if (state_directory_make(config, err) < 0 || state_directory_reach(config, err) < 0)
        return -1;
    return config_become_owner(config, err);
}
