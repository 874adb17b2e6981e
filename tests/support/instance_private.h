/* The inside of a test instance, shared by the files of tests/support only. */
#ifndef TESTS_INSTANCE_PRIVATE_H
#define TESTS_INSTANCE_PRIVATE_H

#include <sys/types.h>

struct instance {
    pid_t pid;
    int port;
    char *folder, *state_dir, *program, *log_path;
    char token[41], url[64];
};

#endif
