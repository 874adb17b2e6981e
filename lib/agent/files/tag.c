/* Owns which form a file's tag has, and comparing it. */
#include "lib/agent/files/tag.h"

#include "lib/agent/files/content.h"

#include <stdio.h>
#include <time.h>

#define LARGE     (32 << 20)
#define HUGE      (256 << 20)
#define BARE_HASH 64 /* digits of a hash that is named without its kind */
#define REST_SEC  2  /* longer than any clock of a file system takes for a step */

static const char hash_begin[] = "sha256:", stamp_begin[] = "stat:";

static bool begins(const char *text, const char *begin)
{
    return strncmp(text, begin, strlen(begin)) == 0;
}

bool tag_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool tag_has_rested(const struct stat *stat)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return stat->st_ctim.tv_sec + REST_SEC < now.tv_sec;
}

void tag_begin(struct file_tag *tag, int fd, const struct stat *stat)
{
    *tag = (struct file_tag){
        .fd = fd, .stat = stat, .is_large = stat->st_size > LARGE, .is_huge = stat->st_size > HUGE
    };
    if (tag_has_rested(stat))
        snprintf(tag->stamp, sizeof tag->stamp, "%s%llx:%llx:%llx:%lx", stamp_begin,
                 (unsigned long long)stat->st_ino, (unsigned long long)stat->st_size,
                 (unsigned long long)stat->st_ctim.tv_sec, (unsigned long)stat->st_ctim.tv_nsec);
}

void tag_set_content(struct file_tag *tag, const void *data, size_t length)
{
    struct sha256 hash;
    sha256_begin(&hash);
    sha256_add(&hash, data, length);
    sha256_end(&hash, tag->hash);
}

static int find_hash(struct file_tag *tag, struct error *err)
{
    return tag->hash[0] || tag->is_huge ? 0 : content_hash(tag->fd, tag->hash, NULL, err);
}

const char *tag_text(struct file_tag *tag, struct error *err)
{
    if (tag->is_large && tag->stamp[0])
        return tag->stamp;
    return find_hash(tag, err) < 0 ? NULL : tag->hash;
}

bool tag_is_hash(const struct file_tag *tag)
{
    return !(tag->is_large && tag->stamp[0]) && tag->hash[0];
}

static int is_this(struct file_tag *tag, const char *text, size_t length, struct error *err)
{
    bool is_bare = length == BARE_HASH && strspn(text, "0123456789abcdef") >= BARE_HASH;
    bool is_hash = is_bare || begins(text, hash_begin);
    if (is_hash && find_hash(tag, err) < 0)
        return -1;
    const char *own = is_hash ? tag->hash : tag->stamp;
    if (is_bare)
        own += sizeof hash_begin - 1;
    return length > 0 && strlen(own) == length && memcmp(own, text, length) == 0;
}

int tag_is_named(struct file_tag *tag, const char *list, bool weak, struct error *err)
{
    for (const char *at = list + strspn(list, ", \t"); *at; at += strspn(at, ", \t")) {
        bool is_weak = begins(at, "W/");
        at += is_weak ? 2 : 0;
        bool quoted = *at == '"';
        at += quoted;
        size_t length = strcspn(at, quoted ? "\"" : ", \t");
        if (!quoted && length == 1 && *at == '*')
            return 1;
        int found = is_weak && !weak ? 0 : is_this(tag, at, length, err);
        if (found != 0)
            return found;
        at += length;
        at += quoted && *at == '"';
    }
    return 0;
}
