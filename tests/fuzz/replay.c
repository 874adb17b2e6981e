/* Owns: running a fuzz target over stored inputs without libFuzzer, so that each one found stays a test.
 * replay_NAME FILE... runs these; without arguments all of tests/fuzz/corpus/NAME. */
#include "lib/base/buffer.h"
#include "lib/base/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>

enum { INPUT_MAX = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(int dirfd, const char *name)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_buffer_ struct buffer input = BUFFER_INIT;
    if (io_read_file(dirfd, name, INPUT_MAX, &input, &err) < 0) {
        fprintf(stderr, "%s: %s\n", name, err.message);
        return -1;
    }
    printf("%s: %zu bytes\n", name, input.length);
    fflush(stdout);                                  /* the last line names the input that crashed */
    void *exact = xmemdup(input.data, input.length); /* so that a sanitizer sees one byte too many */
    LLVMFuzzerTestOneInput(exact, input.length);
    free(exact);
    return 0;
}

static int replay_corpus(const char *program)
{
    const char *base = strrchr(program, '_');
    _cleanup_free_ char *path = xasprintf("tests/fuzz/corpus/%s", base != NULL ? base + 1 : "");
    DIR *dir = opendir(path);
    int count = 0, failed = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.') {
            failed += replay_file(dirfd(dir), entry->d_name) < 0;
            count++;
        }
    if (dir != NULL)
        closedir(dir);
    if (count == 0)
        fprintf(stderr, "%s: no inputs\n", path);
    return count == 0 || failed > 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc < 2)
        return replay_corpus(argv[0]);
    for (int at = 1; at < argc; at++)
        failed += replay_file(AT_FDCWD, argv[at]) < 0;
    return failed > 0;
}
