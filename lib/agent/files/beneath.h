/* A file by its path from a folder on, where no component of it is a link: whoever exchanges one of them for
 * a link meanwhile has it refused. Allocates nothing: for use between fork and exec. */
#ifndef AGENT_FILES_BENEATH_H
#define AGENT_FILES_BENEATH_H

/* For reading, without O_CLOEXEC; only a regular file. -1: errno. */
int beneath_open(int folder_fd, const char *path);

#endif
