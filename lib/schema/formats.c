/* The named rules for strings: each with the pattern that the documents show (where one can say it) and the
 * function that runs. Facts of the wire contract; knows no operation and touches no file. */
#include "lib/schema/formats.h"

#include "lib/base/base64.h"
#include "lib/base/ids.h"

#include <strings.h>

#define PATH_CHARS_MAX 4096

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Every byte is a letter, a digit or in `more`. */
static bool is_made_of(const char *text, size_t length, const char *more)
{
    for (size_t i = 0; i < length; i++)
        if (!is_alnum(text[i]) && (!text[i] || !strchr(more, text[i])))
            return false;
    return true;
}

static bool accepts_id(enum id_kind kind, const char *text, size_t length)
{
    char copy[ID_SIZE];

    if (length != ID_SIZE - 1)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return id_is_valid(kind, copy);
}

static bool accepts_workspace_id(const char *text, size_t length)
{
    return accepts_id(ID_WORKSPACE, text, length);
}
static bool accepts_exec_id(const char *text, size_t length)
{
    return accepts_id(ID_EXEC, text, length);
}
static bool accepts_watch_id(const char *text, size_t length)
{
    return accepts_id(ID_WATCH, text, length);
}
const struct field_format format_workspace_id = { "workspace id", "^ws-[0-9a-f]{32}$", accepts_workspace_id,
                                                  "must be ws- and 32 lowercase hex digits" };
const struct field_format format_exec_id = { "exec id", "^ex-[0-9a-f]{32}$", accepts_exec_id,
                                             "must be ex- and 32 lowercase hex digits" };
const struct field_format format_watch_id = { "watch id", "^fw-[0-9a-f]{32}$", accepts_watch_id,
                                              "must be fw- and 32 lowercase hex digits" };

/* sha256: and 64 hex digits, which may stand alone, stat: and what a large file's ETag has behind it, or *.
 */
static bool accepts_file_match(const char *text, size_t length)
{
    static const char hash[] = "sha256:", stamp[] = "stat:", hex[] = "0123456789abcdef";
    size_t prefix = 0;

    if (length == 1 && *text == '*')
        return true;
    if (length > 5 && length <= 100 && memcmp(text, stamp, 5) == 0)
        return strspn(text + 5, "0123456789abcdef:") == length - 5;
    if (length > 7 && memcmp(text, hash, 7) == 0)
        prefix = 7;
    return length - prefix == 64 && strspn(text + prefix, hex) == 64;
}
const struct field_format format_file_match = {
    "file match", "^([*]|(sha256:)?[0-9a-f]{64}|stat:[0-9a-f:]{1,95})$", accepts_file_match,
    "must be sha256: and 64 lowercase hex digits, as a file's hash is told, or *"
};

/* RFC 9110, 14.1.1, as far as its characters go; which ranges mean anything is decided where they are read.
 */
static bool accepts_byte_range(const char *text, size_t length)
{
    static const char unit[] = "bytes=";
    size_t prefix = sizeof unit - 1;

    return length > prefix && strncasecmp(text, unit, prefix) == 0 &&
           strspn(text + prefix, "0123456789-, \t") == length - prefix && memchr(text, '-', length) != NULL;
}
const struct field_format format_byte_range = { "byte range", "^[Bb][Yy][Tt][Ee][Ss]=[0-9, \t]*-[-0-9, \t]*$",
                                                accepts_byte_range,
                                                "must be bytes=FIRST-LAST, bytes=FIRST- or bytes=-COUNT" };

static bool accepts_name(const char *text, size_t length)
{
    return length >= 1 && length <= 63 && is_made_of(text, length, "._-");
}
const struct field_format format_name = { "name", "^[A-Za-z0-9._-]{1,63}$", accepts_name,
                                          "must be 1-63 letters, digits, dots, underscores or hyphens" };

/* Calls for each component; a path has none that is "..". */
static bool has_parent_component(const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        const char *slash = memchr(text + at, '/', length - at);
        size_t part = slash ? (size_t)(slash - text) - at : length - at;
        if (part == 2 && text[at] == '.' && text[at + 1] == '.')
            return true;
        at += part + 1;
    }
    return false;
}

/* Normalised into out (length + 2 bytes); returns the length. */
static size_t normalise(const char *text, size_t length, char *out)
{
    size_t used = 0;

    for (size_t at = 0; at < length;) {
        const char *slash = memchr(text + at, '/', length - at);
        size_t part = slash ? (size_t)(slash - text) - at : length - at;
        if (part > 0 && !(part == 1 && text[at] == '.')) {
            out[used++] = '/';
            memcpy(out + used, text + at, part);
            used += part;
        }
        at += part + 1;
    }
    if (used == 0)
        out[used++] = '/';
    out[used] = '\0';
    return used;
}

char *format_normalise_path(const char *path)
{
    size_t length = strlen(path);
    char *out = xmalloc(length + 2);

    normalise(path, length, out);
    return out;
}

/* The length in characters of what normalising leaves, without making it. */
static size_t normalised_chars(const char *text, size_t length)
{
    size_t chars = 0;

    for (size_t at = 0; at < length;) {
        const char *slash = memchr(text + at, '/', length - at);
        size_t part = slash ? (size_t)(slash - text) - at : length - at;
        if (part > 0 && !(part == 1 && text[at] == '.')) {
            chars++;
            for (size_t i = 0; i < part; i++)
                chars += ((unsigned char)text[at + i] & 0xC0) != 0x80;
        }
        at += part + 1;
    }
    return chars ? chars : 1;
}

static bool accepts_remote_path(const char *text, size_t length)
{
    return length > 0 && text[0] == '/' && !memchr(text, '\0', length) &&
           !has_parent_component(text, length) && normalised_chars(text, length) <= PATH_CHARS_MAX;
}
static bool accepts_mount_path(const char *text, size_t length)
{
    return accepts_remote_path(text, length) && normalised_chars(text, length) > 1;
}
const struct field_format format_remote_path = {
    "remote path", NULL, accepts_remote_path,
    "must be an absolute path without '..' of at most 4096 characters"
};
const struct field_format format_mount_path = {
    "mount path", NULL, accepts_mount_path,
    "must be an absolute path without '..', of at most 4096 characters, and not '/'"
};

static bool accepts_word(const char *text, size_t length, const char *more)
{
    return length >= 1 && length <= 200 && is_alnum(text[0]) && is_made_of(text + 1, length - 1, more);
}
static bool accepts_image_name(const char *text, size_t length)
{
    return accepts_word(text, length, "._:/-");
}
static bool accepts_package(const char *text, size_t length)
{
    return accepts_word(text, length, "+._:@/=-");
}
static bool accepts_image_id(const char *text, size_t length)
{
    return length > 3 && !memcmp(text, "im-", 3) && is_made_of(text + 3, length - 3, "_-");
}
const struct field_format format_image_name = {
    "image name", "^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$", accepts_image_name,
    "must begin with a letter or digit, then up to 199 of letters, digits and ._:/-"
};
const struct field_format format_image_id = { "image id", "^im-[A-Za-z0-9_-]+$", accepts_image_id,
                                              "must be im- and letters, digits, underscores or hyphens" };
const struct field_format format_package = {
    "package", "^[A-Za-z0-9][A-Za-z0-9+._:@/=-]{0,199}$", accepts_package,
    "must begin with a letter or digit, then up to 199 of letters, digits and +._:@/=-"
};

static bool accepts_env_name(const char *text, size_t length)
{
    return length > 0 && !memchr(text, '=', length) && !memchr(text, '\0', length);
}
const struct field_format format_env_name = { "environment name", "^[^=\\x00]+$", accepts_env_name,
                                              "must not be empty and must not contain '=' or NUL" };

static bool accepts_no_nul(const char *text, size_t length)
{
    return !memchr(text, '\0', length);
}
const struct field_format format_no_nul = { "text", NULL, accepts_no_nul,
                                            "must not contain a NUL character" };

static bool accepts_tag_key(const char *text, size_t length)
{
    size_t chars = 0;

    for (size_t i = 0; i < length; i++)
        chars += ((unsigned char)text[i] & 0xC0) != 0x80;
    return chars >= 1 && chars <= 100;
}
const struct field_format format_tag_key = { "tag", NULL, accepts_tag_key, "must have 1 to 100 characters" };

const struct field_format format_base64 = {
    "base64", "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$", base64_is_valid,
    "must be base64 with padding (RFC 4648, section 4)"
};

static bool accepts_signal(const char *text, size_t length)
{
    static const char *const names[] = { "TERM", "INT",  "HUP",  "KILL", "QUIT",
                                         "USR1", "USR2", "STOP", "CONT", "WINCH" };

    if (length > 3 && !strncasecmp(text, "SIG", 3)) {
        text += 3;
        length -= 3;
    }
    for (size_t i = 0; i < N_ELEMENTS(names); i++)
        if (strlen(names[i]) == length && !strncasecmp(text, names[i], length))
            return true;
    return false;
}
const struct field_format format_signal = {
    "signal", NULL, accepts_signal, "must be TERM, INT, HUP, KILL, QUIT, USR1, USR2, STOP, CONT or WINCH"
};
