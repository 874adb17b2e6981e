/* Writing a file so that nobody ever sees a part of it: the new content is complete and on disk before it
 * takes its name, and until then it has none. */
#ifndef AGENT_FILES_REPLACE_H
#define AGENT_FILES_REPLACE_H

#include "lib/agent/files/path.h"

#include <stdint.h>

struct replacement {
    int folder_fd;      /* the place's, for reading; -1 = it cannot be read, so not synced */
    int fd;             /* the new content, to be written */
    char temporary[40]; /* "" = it has no name yet */
    const struct place *place;
    const char *path;
    int turns; /* -1 = no turn was taken */
};
#define REPLACEMENT_INIT                                                                                     \
    {                                                                                                        \
        .folder_fd = -1, .fd = -1, .turns = -1                                                               \
    }
#define _cleanup_replacement_ __attribute__((cleanup(replacement_abandon)))
/* What is left of one that was not finished is gone. */
void replacement_abandon(struct replacement *r);

/* A new content for place, with mode and owner of what is there, or those of a new file. */
int replacement_begin(struct replacement *r, const struct place *place, const char *path, struct error *err);
/* The content is on disk, and from here to the end no other call changes what the place's name stands for:
 * now is the time to look whether it still is what it must be. turns: turn.h. */
int replacement_take_turn(struct replacement *r, int turns, struct error *err);
/* In place. exclusive: only where nothing is there, else ERROR_CONFLICT. */
int replacement_finish(struct replacement *r, bool exclusive, struct error *err);

#endif
