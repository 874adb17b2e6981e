/* Owns asking ripgrep for the names of the files to search, in the order of their paths. */
#include "lib/agent/files/grep.h"

#include <sys/wait.h>

#define RG_COMPLAINED 2 /* of files, which does not keep it from others */
#define NAMES_READ    (256u << 10)
#define PATH_MOST     (16u << 10) /* a longer one is none */

int grep_list_begin(struct grep_list *list, struct grep *grep, struct error *err)
{
    static const char *const own[] = { "--files", "--null", "--sort", "path" };
    struct grep_arguments a = { 0 };
    *list = (struct grep_list){ .grep = grep, .rg = RG_INIT };
    if (grep->only) {
        buffer_printf(&list->read, "./%s", grep->only);
        buffer_append_char(&list->read, '\0');
        list->over = list->whole = true;
        return 0;
    }
    grep_arguments_begin(&a);
    for (size_t i = 0; i < N_ELEMENTS(own); i++)
        grep_argument(&a, own[i]);
    grep_arguments_filter(&a, grep);
    grep_argument(&a, "--");
    grep_argument(&a, "./");
    int rc = rg_start(&list->rg, grep->call, grep->folder_fd, a.list, NULL, err);
    grep_arguments_clear(&a);
    return rc;
}

void grep_list_clear(struct grep_list *list)
{
    rg_clear(&list->rg);
    buffer_free(&list->read);
}

/* More of ripgrep's output; false: nothing came any more. */
static bool read_more(struct grep_list *list)
{
    if (list->over)
        return false;
    buffer_consume(&list->read, list->at);
    list->at = 0;
    if (list->read.length > PATH_MOST + NAMES_READ) {
        list->over = true;
        return false;
    }
    ssize_t got =
        rg_read(&list->rg, buffer_reserve(&list->read, NAMES_READ), NAMES_READ, list->grep->until_ms);
    if (got > 0) {
        list->read.length += (size_t)got;
        return true;
    }
    list->over = true;
    int status = got == 0 ? rg_end(&list->rg) : 0;
    list->broken = !WIFEXITED(status) || WEXITSTATUS(status) > RG_COMPLAINED;
    list->whole = got == 0 && !list->broken;
    list->grep->timed_out |= got < 0;
    list->grep->unreadable += list->rg.problems;
    return false;
}

void grep_list_next(struct grep_list *list, size_t count, size_t size, struct buffer *ret)
{
    while (count > 0) {
        const char *from = list->read.data + list->at;
        size_t left = list->read.length - list->at;
        const char *end = left > 0 ? memchr(from, '\0', left) : NULL;
        if (!end && read_more(list))
            continue;
        if (!end)
            break;
        size_t length = (size_t)(end - from) + 1;
        if (grep_wants(list->grep, from)) {
            if (ret->length > 0 && ret->length + length > size)
                break;
            buffer_append(ret, from, length);
            count--;
        }
        list->at += length;
    }
}

void grep_list_narrow(struct grep_list *list, struct buffer *names, bool cut)
{
    rg_clear(&list->rg);
    buffer_free(&list->read);
    list->read = *names;
    *names = (struct buffer)BUFFER_INIT;
    list->at = 0;
    list->over = true;
    list->whole = !cut;
    list->narrowed = true;
}

bool grep_list_was_narrowed(const struct grep_list *list)
{
    return list->narrowed && (list->whole || list->at < list->read.length);
}

bool grep_list_is_at_end(const struct grep_list *list)
{
    return list->whole && list->at == list->read.length;
}
