/* json.c: a strict reader of JSON (RFC 8259), for files that the program or its peers write, such as headers of safetensors and
 * run.json; and writers of text and numbers.
 *
 * One pass over the text fills one block of memory: first the nodes, then the unescaped characters. Both are bounded by the
 * text's length: every value has a character of its own, and no escape grows. */
#include "runtime/base/base.h"
#include "runtime/base/terminal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

typedef struct JsonReader {
    const char *begin, *at, *end;
    const char *error;
    Json *nodes;
    size_t node_count;
    char *characters;
    int depth;
} JsonReader;

static Json *read_value(JsonReader *);

static void skip_blanks(JsonReader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool fail(JsonReader *r, const char *error)
{
    if (!r->error)
        r->error = mgpu_format("%s (byte %lld)", error, (long long)(r->at - r->begin));
    return false;
}

static bool take(JsonReader *r, char c)
{
    skip_blanks(r);
    if (r->at >= r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool read_hex(JsonReader *r, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        char c = r->at < r->end ? *r->at : ' ';
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return fail(r, "a bad \\u escape");
        *code = *code * 16 + (unsigned)digit;
    }
    return true;
}

static void put(JsonReader *r, unsigned c) { *r->characters++ = (char)c; }

static void put_utf8(JsonReader *r, unsigned c)
{
    if (c < 0x80) {
        put(r, c);
    } else if (c < 0x800) {
        put(r, 0xc0 | c >> 6);
        put(r, 0x80 | (c & 63));
    } else {
        if (c < 0x10000) {
            put(r, 0xe0 | c >> 12);
        } else {
            put(r, 0xf0 | c >> 18);
            put(r, 0x80 | (c >> 12 & 63));
        }
        put(r, 0x80 | (c >> 6 & 63));
        put(r, 0x80 | (c & 63));
    }
}

static bool read_escape(JsonReader *r)
{
    static const char NAMES[] = "\"\\/bfnrt", VALUES[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    const char *name = c ? strchr(NAMES, c) : NULL;
    if (name) {
        put(r, (unsigned char)VALUES[name - NAMES]);
        return true;
    }
    unsigned code, low;
    if (c != 'u' || !read_hex(r, &code))
        return fail(r, "an unknown escape");
    if (code >= 0xd800 && code < 0xdc00) {
        if (r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
            return fail(r, "half of a surrogate pair");
        r->at += 2;
        if (!read_hex(r, &low) || low < 0xdc00 || low > 0xdfff)
            return fail(r, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc80 && code < 0xdd00) { /* mgpu_json_write_bytes; Python's surrogateescape */
        put(r, code & 0xff);
        return true;
    } else if (code >= 0xdc00 && code < 0xe000) {
        return fail(r, "half of a surrogate pair");
    }
    if (!code) /* texts are NUL-terminated */
        return fail(r, "a NUL in a text");
    put_utf8(r, code);
    return true;
}

static const char *read_text(JsonReader *r)
{
    if (!take(r, '"')) {
        fail(r, "a text in quotes is missing");
        return NULL;
    }
    const char *text = r->characters;
    while (r->at < r->end && *r->at != '"') {
        unsigned char c = (unsigned char)*r->at++;
        if (c < 32) {
            fail(r, "a control character in a text");
            return NULL;
        }
        if (c != '\\')
            put(r, c);
        else if (!read_escape(r))
            return NULL;
    }
    if (r->at >= r->end) {
        fail(r, "the text in quotes is not closed");
        return NULL;
    }
    r->at++;
    put(r, 0);
    return text;
}

static size_t digits(JsonReader *r)
{
    const char *begin = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return (size_t)(r->at - begin);
}

static bool read_number(JsonReader *r, Json *value)
{
    const char *begin = r->at;
    if (*r->at == '-')
        r->at++;
    bool zero = r->at < r->end && *r->at == '0';
    size_t whole = digits(r);
    if (whole == 0 || (zero && whole > 1))
        return fail(r, "a bad number");
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (!digits(r))
            return fail(r, "a bad number");
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-'))
            r->at++;
        if (!digits(r))
            return fail(r, "a bad number");
    }
    value->kind = JSON_NUMBER;
    value->text = r->characters;
    for (const char *c = begin; c < r->at; c++)
        put(r, (unsigned char)*c);
    put(r, 0);
    value->number = strtod(value->text, NULL);
    return true;
}

static bool read_members(JsonReader *r, Json *value, char close)
{
    value->kind = close == '}' ? JSON_OBJECT : JSON_LIST;
    Json **link = &value->first;
    if (++r->depth > DEEPEST)
        return fail(r, "lists and objects are nested too deeply");
    if (take(r, close)) {
        r->depth--;
        return true;
    }
    do {
        const char *key = NULL;
        if (close == '}' && (!(key = read_text(r)) || !take(r, ':')))
            return fail(r, "a key and a colon are missing");
        Json *member = read_value(r);
        if (!member)
            return false;
        member->key = key;
        *link = member;
        link = &member->next;
    } while (take(r, ','));
    r->depth--;
    return take(r, close) || fail(r, "a comma or the closing bracket is missing");
}

static bool read_word(JsonReader *r, Json *value)
{
    static const struct {
        const char *word;
        JsonKind kind;
    } WORDS[] = {{"null", JSON_NULL}, {"false", JSON_FALSE}, {"true", JSON_TRUE}};
    for (int i = 0; i < MGPU_COUNT(WORDS); i++) {
        size_t length = strlen(WORDS[i].word);
        if ((size_t)(r->end - r->at) >= length && memcmp(r->at, WORDS[i].word, length) == 0) {
            r->at += length;
            value->kind = WORDS[i].kind;
            return true;
        }
    }
    return fail(r, "a value is missing");
}

static Json *read_value(JsonReader *r)
{
    skip_blanks(r);
    if (r->at >= r->end) {
        fail(r, "the file ends too early");
        return NULL;
    }
    Json *value = &r->nodes[r->node_count++];
    bool good;
    if (*r->at == '{' || *r->at == '[') {
        good = read_members(r, value, *r->at++ == '{' ? '}' : ']');
    } else if (*r->at == '"') {
        value->kind = JSON_TEXT;
        good = (value->text = read_text(r)) != NULL;
    } else {
        good = *r->at == '-' || (*r->at >= '0' && *r->at <= '9') ? read_number(r, value) : read_word(r, value);
    }
    return good ? value : NULL;
}

/* Returns a bound on the number of values: except the first one, each follows a bracket, comma or colon. */
static size_t most_values(const char *text, size_t length)
{
    size_t count = 2;
    for (size_t i = 0; i < length; i++)
        count += text[i] == ',' || text[i] == '[' || text[i] == '{' || text[i] == ':';
    return count;
}

Json *mgpu_json_read(const char *text, size_t length, const char **error)
{
    size_t nodes = most_values(text, length);
    JsonReader r = {.begin = text, .at = text, .end = text + length};
    r.nodes = mgpu_allocate(nodes * sizeof(Json) + 2 * length + 2, 1); /* a number of one digit takes two characters */
    r.characters = (char *)(r.nodes + nodes);
    Json *value = read_value(&r);
    skip_blanks(&r);
    if (value && r.at < r.end)
        fail(&r, "something follows the end");
    if (r.error) {
        *error = r.error;
        free(r.nodes);
        return NULL;
    }
    return value;
}

const Json *mgpu_json_member(const Json *object, const char *key)
{
    if (object && object->kind == JSON_OBJECT)
        for (const Json *m = object->first; m; m = m->next)
            if (strcmp(m->key, key) == 0)
                return m;
    return NULL;
}

double mgpu_json_number(const Json *object, const char *key)
{
    const Json *m = mgpu_json_member(object, key);
    return m && m->kind == JSON_NUMBER ? m->number : (double)NAN;
}

const char *mgpu_json_text(const Json *object, const char *key)
{
    const Json *m = mgpu_json_member(object, key);
    return m && m->kind == JSON_TEXT ? m->text : "";
}

bool mgpu_json_whole(const Json *value, int64_t *number)
{
    if (!value || value->kind != JSON_NUMBER || strpbrk(value->text, ".eE"))
        return false;
    char *end;
    errno = 0;
    long long n = strtoll(value->text, &end, 10);
    if (*end || errno == ERANGE)
        return false;
    *number = n;
    return true;
}

static void write_text(FILE *f, const char *text, bool keep)
{
    fputc('"', f);
    for (int bytes; *text; text += bytes) {
        uint32_t code;
        bytes = mgpu_utf8(text, &code);
        if (!bytes) {
            fprintf(f, "\\u%04x", keep ? 0xdc00u + (unsigned char)*text : 0xfffdu);
            bytes = 1;
        } else if (code == '"' || code == '\\') {
            fprintf(f, "\\%c", *text);
        } else if (code < 0x10000 && mgpu_control(text, &code)) { /* the output may be shown on a terminal */
            fprintf(f, "\\u%04x", code);
        } else {
            fwrite(text, 1, (size_t)bytes, f);
        }
    }
    fputc('"', f);
}

void mgpu_json_write_text(FILE *f, const char *text) { write_text(f, text, false); }

void mgpu_json_write_bytes(FILE *f, const char *text) { write_text(f, text, true); }

void mgpu_json_write_number(FILE *f, double v, int digits)
{
    if (isfinite(v))
        fprintf(f, "%.*g", digits, v);
    else
        fputs("null", f);
}
