/* Paths of clients in the workspace's folder. Each component is opened on its own, relative to the folder
 * before it and never through a link; links are read and followed by hand, so that neither a link that was
 * there nor one that a command puts in the way meanwhile leads out. */
#ifndef AGENT_FILES_PATH_H
#define AGENT_FILES_PATH_H

#include "lib/base/error.h"
#include "lib/base/memory.h"

#include <limits.h>
#include <sys/stat.h>

struct path_root {
    int fd;           /* the folder, O_PATH */
    const char *path; /* as commands name it; clients may say "/workspace" too */
};

enum path_flag {
    PATH_THE_LINK = 1 << 0,     /* where the last component is a link, that itself */
    PATH_MAKE_PARENTS = 1 << 1, /* missing folders before the last component are made */
    PATH_EXACT = 1 << 2,        /* no client's words, but bytes as they are */
};

/* A client's words are UTF-8, names are not: a path that begins so goes on as the base64 of its bytes (RFC
 * 4648, section 4 or 5, with or without padding). A name that begins so itself is written ./base64:... */
#define PATH_ESCAPE "base64:"

/* Where a path leads. */
struct place {
    int folder_fd;           /* O_PATH: the folder that holds it */
    char name[NAME_MAX + 1]; /* in there; "." = the root itself */
    bool exists;
    bool parents_missing; /* then it does not exist, and folder_fd is -1 */
    bool slash;           /* the path says that it is a folder: what exists is one */
    struct stat stat;     /* of what exists */
    char *shown;          /* from the root on, links followed; "." = the root itself */
};
#define PLACE_INIT                                                                                           \
    {                                                                                                        \
        .folder_fd = -1                                                                                      \
    }
#define _cleanup_place_ __attribute__((cleanup(place_clear)))
void place_clear(struct place *place);

/* ERROR_INVALID for what is no path inside, ERROR_NOT_FOUND never. */
int path_find(const struct path_root *root, const char *path, unsigned flags, struct place *ret,
              struct error *err);
/* The same for what must exist: ERROR_NOT_FOUND. */
int path_find_existing(const struct path_root *root, const char *path, unsigned flags, struct place *ret,
                       struct error *err);
/* Of a link, for those to whom it counts as what it leads to, inside of the root. */
bool path_leads_to_folder(const struct path_root *root, const char *exact);
/* For who is about to make a file: not where its path ends with a slash. */
int path_check_file(const struct place *place, const char *path, struct error *err);
/* The words of a client that say what the file is called: as they are, or what they stand for. */
const char *path_name(const char *path, const struct place *place);
/* Opens a regular file; anything else (folder, FIFO, device, socket) is refused by name, before it is opened
 * and after. path: as the client said it. *ret_stat is the opened file's. */
int path_open_file(const struct place *place, const char *path, int flags, struct stat *ret_stat,
                   struct error *err);
int path_open_folder(const struct place *place, const char *path, struct error *err); /* for reading */
const char *path_kind(mode_t mode); /* "a file", "a folder", "a FIFO" ... */
const char *path_type(mode_t mode); /* as answers say it: "file", "directory", "link", "other" */
/* errno -> an error that names the path as the client said it. */
int path_fail(struct error *err, int number, const char *path, const char *what);

#endif
