/* Owns reading a file by lines: {"path", "offset", "limit", "line_numbers", "max_bytes", "twice",
 * "max_size"}. The file is read once from end to end, for its hash and the number of its lines; of its text
 * only what may be answered is kept. Lines end with \n and nothing else, as for sed and wc. */
#include "lib/agent/files/call.h"
#include "lib/agent/files/content.h"
#include "lib/agent/search/names.h"
#include "lib/base/utf8.h"

#include <errno.h>
#include <fcntl.h>

enum { PIECE = 256 << 10, NUMBER_SIZE = 8 /* "     1\t" as JSON has it */ };

struct reading {
    const char *path;
    int fd;
    struct stat stat;
    int64_t offset, limit; /* lines; limit <= 0: all */
    bool numbered;
    size_t room;  /* for the text, as encoded in the answer */
    size_t times; /* that it stands there */
    struct sha256 hash;
    int64_t size, line; /* read so far; lines that ended */
    bool mid_line;      /* the last byte did not end one */
    struct buffer text; /* of the lines asked for, no more than there is room for */
    bool overflows;     /* there was more */
    char head[CONTENT_LOOK];
    size_t head_length;
};

/* ---- from end to end ---- */

static bool is_wanted(const struct reading *r, int64_t line)
{
    return line >= r->offset && (r->limit <= 0 || line - r->offset < r->limit);
}

static void keep(struct reading *r, const char *data, size_t length)
{
    size_t most = r->room + 4 - r->text.length; /* a character that is cut shows as such */
    r->overflows |= length > most;
    buffer_append(&r->text, data, length < most ? length : most);
}

static void take_piece(struct reading *r, const char *data, size_t length)
{
    const char *end = data + length;
    sha256_add(&r->hash, data, length);
    r->size += (int64_t)length;
    while (data < end) {
        const char *newline = memchr(data, '\n', (size_t)(end - data));
        const char *next = newline ? newline + 1 : end;
        if (is_wanted(r, r->line))
            keep(r, data, (size_t)(next - data));
        r->line += newline != NULL;
        r->mid_line = newline == NULL;
        data = next;
    }
}

static int each_piece(struct reading *r, void (*take)(struct reading *r, const char *data, size_t length),
                      struct error *err)
{
    _cleanup_free_ char *piece = xmalloc(PIECE);
    if (lseek(r->fd, 0, SEEK_SET) < 0)
        return path_fail(err, errno, r->path, "cannot be read");
    for (ssize_t got; (got = read(r->fd, piece, PIECE)) != 0;) {
        if (got < 0 && errno != EINTR)
            return path_fail(err, errno, r->path, "cannot be read");
        if (got > 0)
            take(r, piece, (size_t)got);
    }
    return 0;
}

static void count_lines(struct reading *r, const char *data, size_t length)
{
    const char *end = data + length;
    while ((data = memchr(data, '\n', (size_t)(end - data))) != NULL && ++data < end)
        r->line++;
    /* data is NULL, or stands behind a newline that was the last byte */
    r->line += data == end;
    r->mid_line = data == NULL;
}

/* From the end: how many lines there are is to be known first. */
static int resolve_offset(struct reading *r, struct error *err)
{
    if (r->offset >= 0)
        return 0;
    if (each_piece(r, count_lines, err) < 0)
        return -1;
    r->offset += r->line + r->mid_line;
    if (r->offset < 0)
        r->offset = 0;
    r->line = 0;
    r->mid_line = false;
    return 0;
}

/* ---- the page ---- */

struct page {
    struct buffer text; /* without the last newline */
    int64_t lines;
    bool line_cut; /* its only line has not room */
};

static size_t cost_of(const struct reading *r, const char *line, size_t length)
{
    size_t once = utf8_json_size(line, length) + 2 + (r->numbered ? NUMBER_SIZE : 0);
    return once * r->times;
}

static void add_line(const struct reading *r, struct page *page, const char *line, size_t length)
{
    if (page->lines > 0)
        buffer_append_char(&page->text, '\n');
    if (r->numbered)
        buffer_printf(&page->text, "%6lld\t", (long long)(r->offset + page->lines + 1));
    buffer_append(&page->text, line, length);
    page->lines++;
}

/* The longest beginning of whole characters that fits. */
static size_t fitting(const struct reading *r, const char *line, size_t length)
{
    while (length > 0 && cost_of(r, line, length) > r->room)
        length = length > 64 ? length - length / 8 : length - 1;
    return length - utf8_incomplete_tail(line, length);
}

static void make_page(const struct reading *r, struct page *page)
{
    const char *at = r->text.data ? r->text.data : "", *end = at + r->text.length;
    size_t used = 0;
    if (r->offset == 0)
        at += content_mark(at, r->text.length); /* hidden, and kept on disk */
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at);
        size_t cost = cost_of(r, at, length);
        bool is_whole = newline || !r->overflows;
        if (used + cost > r->room || !is_whole) {
            page->line_cut = page->lines == 0;
            if (page->line_cut)
                add_line(r, page, at, fitting(r, at, length));
            return;
        }
        used += cost;
        add_line(r, page, at, length);
        at += length + 1;
    }
}

/* ---- answers ---- */

static void set_content(json_t *ret, const struct page *page)
{
    _cleanup_buffer_ struct buffer lossy = BUFFER_INIT;
    const char *text = page->text.data ? page->text.data : "";
    bool valid = utf8_is_valid(text, page->text.length);
    buffer_append_utf8(&lossy, text, page->text.length);
    json_object_set_new(ret, "content", json_stringn_nocheck(buffer_text(&lossy), lossy.length));
    json_object_set_new(ret, "utf8", json_boolean(valid));
    if (!valid) {
        _cleanup_buffer_ struct buffer exact = BUFFER_INIT;
        buffer_append_base64(&exact, text, page->text.length);
        json_object_set_new(ret, "content_base64", json_string(buffer_text(&exact)));
    }
}

static json_t *basics(const struct reading *r, const char *shown)
{
    struct sha256 hash = r->hash;
    char text[SHA256_TEXT_SIZE];
    sha256_end(&hash, text);
    json_t *ret = json_pack("{s:I, s:s, s:I, s:b, s:b}", "size", (json_int_t)r->size, "hash", text,
                            "total_lines", (json_int_t)(r->line + r->mid_line), "no_final_newline",
                            (int)r->mid_line, "bom", content_mark(r->head, r->head_length) > 0);
    names_put(ret, "path", shown, strlen(shown));
    return ret;
}

/* Bytes of a page that is not UTF-8 are told beside it, so that it has a third of the room. */
static void bound_ill_formed(struct reading *r)
{
    const char *text = r->text.data ? r->text.data : "";
    size_t whole = r->text.length - (r->overflows ? utf8_incomplete_tail(text, r->text.length) : 0);
    if (!utf8_is_valid(text, whole))
        r->room /= 3;
}

static json_t *text_answer(struct reading *r, const char *shown)
{
    struct page page = { .text = BUFFER_INIT };
    bound_ill_formed(r);
    make_page(r, &page);
    json_t *ret = basics(r, shown);
    set_content(ret, &page);
    buffer_free(&page.text);
    int64_t next = r->offset + page.lines, total = r->line + r->mid_line;
    bool more = page.lines > 0 && next < total;
    json_object_set_new(ret, "offset", json_integer(r->offset));
    json_object_set_new(ret, "lines", json_integer(page.lines));
    json_object_set_new(ret, "line_cut", json_boolean(page.line_cut));
    json_object_set_new(ret, "next_offset", more ? json_integer(next) : json_null());
    return ret;
}

static void read_head(struct reading *r)
{
    ssize_t got = pread(r->fd, r->head, sizeof r->head, 0);
    r->head_length = got > 0 ? (size_t)got : 0;
}

static int image_answer(struct reading *r, const char *shown, const char *type, int64_t max_size,
                        json_t **ret, struct error *err)
{
    if (r->stat.st_size > max_size)
        return error_set(err, ERROR_TOO_LARGE,
                         "'%.200s' is an image of %lld bytes, and WORKSPACE_MAX_READ_SIZE_BYTES is %lld: "
                         "download its bytes, "
                         "or make a smaller one with a command",
                         r->path, (long long)r->stat.st_size, (long long)max_size);
    _cleanup_buffer_ struct buffer encoded = BUFFER_INIT;
    r->offset = 0;
    r->limit = 0;
    r->room = (size_t)max_size;
    if (each_piece(r, take_piece, err) < 0)
        return -1;
    if (r->overflows)
        return error_set(err, ERROR_CONFLICT, "'%.200s' grew while it was read: try again", r->path);
    buffer_append_base64(&encoded, r->text.data, r->text.length);
    *ret = basics(r, shown);
    json_object_set_new(*ret, "total_lines", json_integer(0));
    json_object_set_new(*ret, "no_final_newline", json_false());
    json_object_set_new(*ret, "media_type", json_string(type));
    json_object_set_new(*ret, "data_base64", json_string(buffer_text(&encoded)));
    return 0;
}

/* ---- the call ---- */

static int check_text(const struct reading *r, int64_t max_size, struct error *err)
{
    const char *binary = content_binary(r->head, r->head_length);
    if (binary)
        return error_set(err, ERROR_INVALID,
                         "'%.200s' is not text but %s (%lld bytes): download its bytes, or look at it with a "
                         "command such as file or xxd",
                         r->path, binary, (long long)r->stat.st_size);
    if (r->limit <= 0 && r->stat.st_size > max_size)
        return error_set(
            err, ERROR_TOO_LARGE,
            "'%.200s' has %lld bytes, more than WORKSPACE_MAX_READ_SIZE_BYTES (%lld): read it by offset "
            "and limit, or use grep, head and tail",
            r->path, (long long)r->stat.st_size, (long long)max_size);
    return 0;
}

static int read_text(struct reading *r, const char *shown, int64_t max_size, json_t **ret, struct error *err)
{
    if (check_text(r, max_size, err) < 0 || resolve_offset(r, err) < 0 || each_piece(r, take_piece, err) < 0)
        return -1;
    *ret = text_answer(r, shown);
    return 0;
}

static size_t room_for_text(const struct file_call_context *call)
{
    int64_t most = file_call_integer(call, "max_bytes", 90000);
    return most < 512 ? 512 : most > 16 << 20 ? 16 << 20 : (size_t)most;
}

int file_read(struct file_call_context *call, json_t **ret, struct error *err)
{
    _cleanup_place_ struct place place = PLACE_INIT;
    struct reading r = { .path = file_call_path(call, "path"), .text = BUFFER_INIT };
    int64_t max_size = file_call_integer(call, "max_size", 1 << 20);
    r.offset = file_call_integer(call, "offset", 0);
    r.limit = file_call_integer(call, "limit", 100);
    r.numbered = file_call_flag(call, "line_numbers");
    r.times = file_call_flag(call, "twice") ? 2 : 1;
    r.room = room_for_text(call);
    sha256_begin(&r.hash);
    if (path_find_existing(&call->root, r.path, 0, &place, err) < 0)
        return -1;
    r.fd = path_open_file(&place, r.path, O_RDONLY, &r.stat, err);
    if (r.fd < 0)
        return -1;
    read_head(&r);
    const char *image = content_image(r.head, r.head_length);
    return image ? image_answer(&r, place.shown, image, max_size, ret, err)
                 : read_text(&r, place.shown, max_size, ret, err);
}
