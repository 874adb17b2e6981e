/* The entity tag of a file (RFC 9110, 8.8.3): always a strong one. It is the hash of its content; of a large
 * file that has rested for a while, whose hash would take long, what the file system tells of it. Conditions
 * may name either form at any time; but a huge file is never read for its hash, so that no hash names it, and
 * before it has rested it has no tag. */
#ifndef AGENT_FILES_TAG_H
#define AGENT_FILES_TAG_H

#include "lib/base/error.h"
#include "lib/base/sha256.h"

#include <stdbool.h>
#include <sys/stat.h>

struct file_tag {
    int fd; /* not owned; read to its end where the hash is needed */
    const struct stat *stat;
    char stamp[96], hash[SHA256_TEXT_SIZE]; /* "" = not known (yet) */
    bool is_large, is_huge;
};

/* Nothing has changed it from one look to the other, if somebody had it open all the time (else another file
 * may have its number) and it had rested at the first. */
bool tag_same_file(const struct stat *a, const struct stat *b);
/* So long that a change would now show in its stamps, whatever clock the file system has. */
bool tag_has_rested(const struct stat *stat);

void tag_begin(struct file_tag *tag, int fd, const struct stat *stat);
/* Its content is this: what is sent then has the tag that was told, whatever becomes of the file. */
void tag_set_content(struct file_tag *tag, const void *data, size_t length);
/* The tag without its quotes, valid as long as tag; "" = it has none now, NULL = err. */
const char *tag_text(struct file_tag *tag, struct error *err);
/* Is the tag's text the hash of the content? Once tag_text() was asked. */
bool tag_is_hash(const struct file_tag *tag);
/* Does the value of a condition name this file? "*", or tags with commas between; one without quotes is taken
 * too. weak: W/ may stand before it (If-None-Match), else such a tag names nothing (RFC 9110, 8.8.3.2).
 * 1, 0, or -1 = err. */
int tag_is_named(struct file_tag *tag, const char *list, bool weak, struct error *err);

#endif
