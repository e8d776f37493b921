/* documents.c: the texts of open documents as the client has them, and conversion of positions and URIs. */
#include "compiler/lsp/lsp.h"
#include "dsl/document.h"
#include "dsl/tree.h"
#include "runtime/base/terminal.h"
#include "runtime/base/whole_file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

Document *documents;
int document_count;

Document *document_of(const char *uri)
{
    for (int i = 0; i < document_count; i++)
        if (strcmp(documents[i].uri, uri) == 0)
            return &documents[i];
    return NULL;
}

/* Copies to malloc memory, which outlives the message. */
static char *copy_chars(const char *text, size_t length)
{
    char *copy = malloc(length + 1);
    if (!copy)
        no_memory(length + 1);
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

static void free_document(Document *d)
{
    free(d->uri);
    free(d->path);
    free(d->text);
}

void document_open(const char *uri, const char *text)
{
    document_close(uri); /* if it is already open, the new text replaces the old */
    Document *more = realloc(documents, sizeof *more * (size_t)(document_count + 1));
    if (!more)
        no_memory(sizeof *more);
    documents = more;
    const char *path = path_of_uri(uri), *real = real_path(path);
    size_t length = strlen(text);
    path = real ? real : path;
    documents[document_count++] =
        (Document){copy_chars(uri, strlen(uri)), copy_chars(path, strlen(path)), copy_chars(text, length), length};
}

void document_close(const char *uri)
{
    Document *d = document_of(uri);
    if (!d)
        return;
    free_document(d);
    *d = documents[--document_count];
}

/* ---- files and their URIs */

const char *path_of_uri(const char *uri)
{
    static const char FILE_URI[] = "file://";
    if (strncmp(uri, FILE_URI, strlen(FILE_URI)) != 0)
        return uri;
    const char *from = uri + strlen(FILE_URI);
    from += strcspn(from, "/"); /* skips a host */
    Text t = {0};
    for (; *from; from++) {
        bool escape = *from == '%' && isxdigit((unsigned char)from[1]) && isxdigit((unsigned char)from[2]);
        char hex[] = {escape ? from[1] : 0, escape ? from[2] : 0, 0}, c = escape ? (char)strtol(hex, NULL, 16) : *from;
        text_bytes(&t, c ? &c : "?", 1);
        from += escape ? 2 : 0;
    }
    return text_take(&t);
}

const char *uri_of_path(const char *path)
{
    const char *real = real_path(path);
    path = real ? real : path;
    for (int i = 0; i < document_count; i++) /* uses the client's spelling */
        if (strcmp(documents[i].path, path) == 0)
            return documents[i].uri;
    Text t = {0};
    text_add(&t, "file://");
    for (; *path; path++)
        text_add(&t, isalnum((unsigned char)*path) || strchr("/-._~", *path) ? "%c" : "%%%02X", (unsigned char)*path);
    return text_take(&t);
}

/* Writes the library's text, which mgpuc contains, to the user's cache for editors. Returns NULL if that fails. */
static const char *library_copy(const Source *s)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *base = strrchr(s->file, '/');
    const char *folder = cache && *cache == '/' ? cache : home ? format("%s/.cache", home) : NULL;
    const char *text = library_text(s->file), *refused;
    if (!folder || !text || !base)
        return NULL;
    for (const char *const *part = (const char *const[]){"", "/mgpuc", "/library-" MGPU_VERSION, NULL}; *part; part++) {
        folder = format("%s%s", folder, *part);
        mkdir(folder, 0700);
    }
    const char *path = format("%s%s", folder, base);
    size_t length = strlen(text), there;
    char *old = mgpu_read_whole(path, &there, &refused);
    bool same = old && there == length && memcmp(old, text, length) == 0;
    free(old);
    WholeFile file;
    if (same)
        return path;
    if (mgpu_open_whole(&file, path) != 0)
        return NULL;
    fwrite(text, 1, length, file.f);
    return mgpu_close_whole(&file) == 0 ? path : NULL;
}

const char *uri_of_source(const Source *s)
{
    const char *path = s->library ? library_copy(s) : s->setting || s->dump ? NULL : s->file;
    return path ? uri_of_path(path) : NULL;
}

/* ---- positions */

/* Returns the bytes of the character at `text`, at most `left`, and its UTF-16 units. */
static size_t step(const char *text, size_t left, int *units)
{
    uint32_t code;
    char head[5] = {0}; /* the text may end within a character */
    memcpy(head, text, left < 4 ? left : 4);
    int bytes = mgpu_utf8(head, &code);
    *units = bytes > 3 ? 2 : 1;
    return bytes > 0 && (size_t)bytes <= left ? (size_t)bytes : 1;
}

static const char *line_of(const char *text, const char *end, int line)
{
    for (; line > 0 && text < end; line--) {
        const char *next = memchr(text, '\n', (size_t)(end - text));
        text = next ? next + 1 : end;
    }
    return text;
}

size_t offset_at(const char *text, size_t length, int line, int character)
{
    const char *end = text + length, *at = line_of(text, end, line);
    for (int units; at < end && *at != '\n' && character > 0; character -= units)
        at += step(at, (size_t)(end - at), &units);
    return (size_t)(at - text);
}

/* The compiler counts lines and bytes from 1 and skips a byte order mark. */
static const char *without_mark(const Source *s)
{
    return s->length >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0 ? s->text + 3 : s->text;
}

void add_position(Text *out, const Source *s, int line, int column)
{
    const char *end = s->text + s->length, *begin = without_mark(s), *from = line_of(begin, end, line - 1), *at = from;
    int units, character = begin > s->text && line == 1;
    while (at < end && *at != '\n' && at < from + column - 1) {
        at += step(at, (size_t)(end - at), &units);
        character += units;
    }
    text_add(out, "{\"line\":%d,\"character\":%d}", line - 1, character);
}

void add_range(Text *out, const Source *s, int line, int column, int to_line, int to_column)
{
    text_add(out, "{\"start\":");
    add_position(out, s, line, column);
    text_add(out, ",\"end\":");
    add_position(out, s, to_line, to_column);
    text_add(out, "}");
}

static int whole_member(const Json *object, const char *key)
{
    double v = mgpu_json_number(object, key);
    return v > 0 && v < 1e9 ? (int)v : 0;
}

static size_t offset_of(const Document *d, const Json *position)
{
    return offset_at(d->text, d->length, whole_member(position, "line"), whole_member(position, "character"));
}

void document_change(Document *d, const Json *changes)
{
    for (const Json *c = changes ? changes->first : NULL; c; c = c->next) {
        const Json *range = mgpu_json_member(c, "range");
        const char *text = mgpu_json_text(c, "text");
        size_t more = strlen(text), from = 0, to = d->length;
        if (range && range->kind == JSON_OBJECT) {
            from = offset_of(d, mgpu_json_member(range, "start"));
            to = offset_of(d, mgpu_json_member(range, "end"));
            to = to < from ? from : to;
        }
        size_t length = d->length - (to - from) + more;
        char *whole = malloc(length + 1);
        if (!whole)
            no_memory(length + 1);
        memcpy(whole, d->text, from);
        memcpy(whole + from, text, more);
        memcpy(whole + from + more, d->text + to, d->length - to);
        whole[length] = 0;
        free(d->text);
        d->text = whole;
        d->length = length;
    }
}
