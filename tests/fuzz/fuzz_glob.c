/* Any patterns against any paths: none reads behind its end or takes long, a walk name by name comes to what
 * the whole path does, and what ripgrep is told of a pattern names no less, or excludes no more, than the
 * pattern does. */
#include "lib/agent/search/glob.h"
#include "tests/fuzz/input.h"

enum { SIZE_MOST = 2000 };

static char *text_of(struct input *in)
{
    size_t length;
    const char *line = input_line(in, &length);
    char *text = xstrndup(line, length);
    return text;
}

static void check_pieces(struct glob *glob, int use, const char *path)
{
    struct glob_place place = { 0 }, next = { 0 };
    bool covered = false;
    glob_begin(glob, &place);
    for (const char *at = path; *at;) {
        size_t length = strcspn(at, "/");
        length = length ? length : 1;
        glob_go_on(glob, &place, at, length, &next);
        struct glob_place kept = place;
        place = next;
        next = kept;
        at += length;
        covered |= *at == '/' && glob_accepts(glob, &place);
    }
    bool whole = glob_accepts(glob, &place);
    holds((whole || (use == GLOB_EXCLUDE && covered)) == glob_matches(glob, path, strlen(path)));
    glob_place_clear(&place);
    glob_place_clear(&next);
}

static void check_told(const char *pattern, struct glob *find, const char *path)
{
    char *names = glob_for_names(pattern);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (names && *name && glob_matches(find, path, strlen(path))) {
        struct glob *own = glob_new(GLOB_FIND);
        holds(glob_add(own, "names", names, NULL) < 0 || glob_matches(own, name, strlen(name)));
        glob_free(own);
    }
    free(names);
    free(glob_for_exclude(pattern));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = { data, size };
    if (size > SIZE_MOST)
        return 0;
    char *pattern = text_of(&in), *line = text_of(&in);
    const char *path = line + strspn(line, "/"); /* as glob.h wants it */
    for (int use = GLOB_FIND; use <= GLOB_EXCLUDE; use++) {
        struct error err = ERROR_INIT;
        struct glob *glob = glob_new(use);
        if (glob_add(glob, "pattern", pattern, &err) == 0) {
            check_pieces(glob, use, path);
            if (use == GLOB_FIND)
                check_told(pattern, glob, path);
            /* A second one takes nothing away. */
            bool before = glob_matches(glob, path, strlen(path));
            if (glob_add(glob, "pattern", "*.c", NULL) == 0)
                holds(!before || glob_matches(glob, path, strlen(path)));
        } else {
            holds(err.code == ERROR_INVALID);
        }
        error_clear(&err);
        glob_free(glob);
    }
    free(pattern);
    free(line);
    return 0;
}
