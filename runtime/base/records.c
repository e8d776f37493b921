/* records.c: reads records of a text by tables of their fields. */
#include "runtime/base/records.h"
#include "runtime/base/terminal.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void mgpu_wrong(const mgpu_reader *r, const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    char *message = mgpu_vformat(pattern, arguments);
    va_end(arguments);
    const char *kept = strcpy(r->allocate(r->memory, strlen(message) + 1), message);
    free(message);
    r->wrong(r, kept);
    mgpu_die("%s", kept);
}

/* ---- memory */
struct mgpu_block {
    struct mgpu_block *before;
    size_t used, capacity;
    _Alignas(16) char bytes[];
};

void *mgpu_take_memory(void *blocks, size_t bytes)
{
    enum { BLOCK = 1 << 16 };
    mgpu_block **last = blocks;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!*last || (*last)->capacity - (*last)->used < bytes) {
        size_t capacity = bytes > BLOCK ? bytes : BLOCK;
        mgpu_block *block = mgpu_allocate(1, sizeof *block + capacity);
        *block = (mgpu_block){*last, 0, capacity};
        *last = block;
    }
    (*last)->used += bytes;
    return (*last)->bytes + (*last)->used - bytes;
}

void mgpu_free_memory(mgpu_block **blocks)
{
    for (mgpu_block *block = *blocks, *before; block; block = before) {
        before = block->before;
        free(block);
    }
    *blocks = NULL;
}

void *mgpu_more(mgpu_reader *r, void *list, int *count, size_t bytes)
{
    int used = (*count)++;
    if ((used & (used - 1)) != 0)
        return list;
    void *larger = r->allocate(r->memory, (size_t)(used ? 2 * used : 1) * bytes);
    return list ? memcpy(larger, list, (size_t)used * bytes) : larger;
}

static unsigned hash(const char *text)
{
    unsigned h = 2166136261u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h ^ h >> 15;
}

static int slot_of(const mgpu_names *n, const char *name)
{
    unsigned slot = hash(name) & (unsigned)(n->slot_count - 1);
    while (n->slots[slot] && strcmp(n->keys[n->slots[slot] - 1], name) != 0)
        slot = (slot + 1) & (unsigned)(n->slot_count - 1);
    return (int)slot;
}

int mgpu_name_number(const mgpu_names *n, const char *name) { return n->slot_count ? n->slots[slot_of(n, name)] - 1 : -1; }

bool mgpu_enter_name(mgpu_reader *r, mgpu_names *n, const char *name)
{
    if (mgpu_name_number(n, name) >= 0)
        return false;
    MGPU_ADD(r, n->keys, n->count, name);
    if (2 * n->count > n->slot_count) {
        n->slot_count = n->slot_count ? 2 * n->slot_count : 16;
        n->slots = r->allocate(r->memory, (size_t)n->slot_count * sizeof *n->slots);
        for (int i = 0; i + 1 < n->count; i++)
            n->slots[slot_of(n, n->keys[i])] = i + 1;
    }
    n->slots[slot_of(n, name)] = n->count;
    return true;
}

/* ---- characters */
bool mgpu_is_bare(char c) { return isalnum((unsigned char)c) || (c && strchr("._-/", c)); }

int mgpu_hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

void mgpu_skip_blanks(mgpu_reader *r)
{
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')
        r->at++;
}

static void skip_comment(mgpu_reader *r)
{
    mgpu_skip_blanks(r);
    if (*r->at == '#')
        r->at += strcspn(r->at, "\n");
}

bool mgpu_next_record(mgpu_reader *r)
{
    for (;;) {
        skip_comment(r);
        if (*r->at != '\n')
            return *r->at != 0;
        r->line++;
        r->line_start = ++r->at;
    }
}

bool mgpu_at_end(mgpu_reader *r)
{
    mgpu_skip_blanks(r);
    return !*r->at || *r->at == '\n' || *r->at == r->comment;
}

void mgpu_end_record(mgpu_reader *r)
{
    if (!mgpu_at_end(r) || *r->at == ';')
        mgpu_wrong(r, "the record ends here, but the line goes on; remove the rest, or begin a new line");
    skip_comment(r);
}

bool mgpu_take(mgpu_reader *r, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(r->at, text, length) != 0)
        return false;
    r->at += length;
    return true;
}

bool mgpu_take_word(mgpu_reader *r, const char *word)
{
    mgpu_skip_blanks(r);
    size_t length = strlen(word);
    return strncmp(r->at, word, length) == 0 && !mgpu_is_bare(r->at[length]) && mgpu_take(r, word);
}

void mgpu_need(mgpu_reader *r, const char *text)
{
    mgpu_skip_blanks(r);
    size_t length = strlen(text);
    if (strncmp(r->at, text, length) != 0 || (isalnum((unsigned char)text[length - 1]) && mgpu_is_bare(r->at[length])))
        mgpu_wrong(r, "expected '%s'", text);
    r->at += length;
}

/* ---- names */
static const char *keep(const mgpu_reader *r, const char *text, size_t length)
{
    return memcpy(r->allocate(r->memory, length + 1), text, length);
}

const char *mgpu_plain_name(const mgpu_reader *r, const char *name)
{
    char *plain = mgpu_plain_text(name, false);
    if (!plain)
        mgpu_no_memory(strlen(name));
    name = keep(r, plain, strlen(plain));
    free(plain);
    return name;
}

static const char *read_quoted(mgpu_reader *r)
{
    size_t capacity = strcspn(r->at, "\n"), length = 0;
    char *text = r->allocate(r->memory, capacity + 1);
    for (r->at++; *r->at != '"'; r->at++) {
        char c = *r->at;
        if (!c || c == '\n')
            mgpu_wrong(r, "the text is not closed: a '\"' is missing");
        if (c == '\\' && (r->at[1] == '"' || r->at[1] == '\\')) {
            c = *++r->at;
        } else if (c == '\\') {
            bool hex = r->at[1] == 'x' && mgpu_hex_digit(r->at[2]) >= 0 && mgpu_hex_digit(r->at[3]) >= 0;
            int code = hex ? 16 * mgpu_hex_digit(r->at[2]) + mgpu_hex_digit(r->at[3]) : 0;
            if (!code)
                mgpu_wrong(r, "after '\\' follows '\"', '\\' or x and two hexadecimal digits, not 00");
            c = (char)code;
            r->at += 3;
        }
        text[length++] = c;
    }
    r->at++;
    return r->plain ? mgpu_plain_name(r, text) : text;
}

const char *mgpu_read_name(mgpu_reader *r, const char *what)
{
    mgpu_skip_blanks(r);
    if (*r->at == '"')
        return read_quoted(r);
    const char *begin = r->at;
    while (mgpu_is_bare(*r->at))
        r->at++;
    if (r->at == begin)
        mgpu_wrong(r, "expected %s", what);
    return keep(r, begin, (size_t)(r->at - begin));
}

/* ---- numbers */
int64_t mgpu_read_integer(mgpu_reader *r, const char *what, int64_t least, int64_t most)
{
    mgpu_skip_blanks(r);
    const char *digits = r->at + (*r->at == '-');
    bool negative = digits > r->at, fits = true;
    int64_t n = 0;
    if (!isdigit((unsigned char)*digits))
        mgpu_wrong(r, "expected %s: a whole number", what);
    for (; isdigit((unsigned char)*digits); digits++)
        fits = fits && !__builtin_mul_overflow(n, 10, &n) &&
               !(negative ? __builtin_sub_overflow(n, *digits - '0', &n) : __builtin_add_overflow(n, *digits - '0', &n));
    if (!fits || n < least || n > most)
        mgpu_wrong(r, "%s is out of range: %lld to %lld are possible", what, (long long)least, (long long)most);
    r->at = digits;
    return n;
}

int mgpu_read_int(mgpu_reader *r, const char *what) { return (int)mgpu_read_integer(r, what, 0, INT32_MAX); }
int64_t mgpu_read_bytes(mgpu_reader *r, const char *what) { return mgpu_read_integer(r, what, 0, (int64_t)1 << 62); }

double mgpu_read_number(mgpu_reader *r, const char *what)
{
    mgpu_skip_blanks(r);
    char *end = NULL;
    double value = isspace((unsigned char)*r->at) ? 0 : strtod(r->at, &end);
    if (!end || end == r->at || mgpu_is_bare(*end))
        mgpu_wrong(r, "expected %s: a number", what);
    r->at = end;
    return value != value ? (double)NAN : value;
}

static double read_positive(mgpu_reader *r, const char *what)
{
    mgpu_skip_blanks(r);
    mgpu_reader start = *r;
    double value = mgpu_read_number(r, what);
    if (!(value >= 0 && value < 1e15))
        mgpu_wrong(&start, "%s is no time: a number of microseconds is expected", what);
    return value;
}

uint32_t mgpu_read_digest(mgpu_reader *r)
{
    mgpu_skip_blanks(r);
    uint32_t digest = 0;
    int count = 0;
    for (; mgpu_hex_digit(r->at[count]) >= 0 && count < 8; count++)
        digest = 16 * digest + (uint32_t)mgpu_hex_digit(r->at[count]);
    if (count != 8 || mgpu_is_bare(r->at[8]))
        mgpu_wrong(r, "expected a digest: eight hexadecimal digits");
    r->at += 8;
    return digest;
}

/* ---- words of a list */
int mgpu_read_choice(mgpu_reader *r, const char *what, const char *const *names, int count)
{
    mgpu_skip_blanks(r);
    char near[128];
    for (int i = 0; i < count; i++)
        if (*names[i] && mgpu_take_word(r, names[i]))
            return i;
    mgpu_reader start = *r;
    const char *word = mgpu_read_name(r, what);
    mgpu_wrong(&start, "'%s' is not %s%s", word, what, mgpu_did_you_mean(word, names, count, near));
}

int mgpu_read_type(mgpu_reader *r) { return mgpu_read_choice(r, "a type of elements", mgpu_dtype_names, MGPU_DTYPES); }

/* ---- fields */
int mgpu_small_member(const mgpu_field *f, const void *base)
{
    return f->bytes == 1 ? MGPU_MEMBER_OF(uint8_t, base, f->at) : MGPU_MEMBER_OF(int, base, f->at);
}

static void set_small(const mgpu_field *f, void *base, int value)
{
    if (f->bytes == 1)
        MGPU_MEMBER(uint8_t, base, f->at) = (uint8_t)value;
    else
        MGPU_MEMBER(int, base, f->at) = value;
}

void mgpu_set_usual(const mgpu_field *f, void *base)
{
    switch (f->kind) {
    case MGPU_FIELD_WHOLE: MGPU_MEMBER(int64_t, base, f->at) = f->usual; break;
    case MGPU_FIELD_INT:
    case MGPU_FIELD_TYPE: set_small(f, base, (int)f->usual); break;
    case MGPU_FIELD_CHOICE: set_small(f, base, f->usual > 0 ? (int)f->usual : 0); break;
    default: break;
    }
}

static const char **read_names(mgpu_reader *r, const char *what, int *count)
{
    const char **names = NULL;
    while (!mgpu_at_end(r))
        MGPU_ADD(r, names, *count, mgpu_read_name(r, what));
    return names;
}

void mgpu_read_field(mgpu_reader *r, const mgpu_field *f, void *base)
{
    const char *what = f->what;
    switch (f->kind) {
    case MGPU_FIELD_WHOLE: MGPU_MEMBER(int64_t, base, f->at) = mgpu_read_integer(r, what, f->least, INT64_MAX); break;
    case MGPU_FIELD_INT: set_small(f, base, (int)mgpu_read_integer(r, what, f->least, INT32_MAX)); break;
    case MGPU_FIELD_NUMBER: MGPU_MEMBER(double, base, f->at) = mgpu_read_number(r, what); break;
    case MGPU_FIELD_TIME: MGPU_MEMBER(double, base, f->at) = read_positive(r, what); break;
    case MGPU_FIELD_TIMES:
        for (int i = 0; i < f->name_count; i++)
            MGPU_MEMBER(double, base, f->at + (size_t)i * sizeof(double)) = read_positive(r, what);
        break;
    case MGPU_FIELD_SHARE: MGPU_MEMBER(double, base, f->at) = mgpu_read_number(r, what); break;
    case MGPU_FIELD_AMOUNT: MGPU_MEMBER(double, base, f->at) = (double)mgpu_read_bytes(r, what); break;
    case MGPU_FIELD_FLAG: MGPU_MEMBER(bool, base, f->at) = true; break;
    case MGPU_FIELD_NAME:
    case MGPU_FIELD_TEXT: MGPU_MEMBER(const char *, base, f->at) = mgpu_read_name(r, what); break;
    case MGPU_FIELD_NAMES: MGPU_MEMBER(const char **, base, f->at) = read_names(r, what, &MGPU_MEMBER(int, base, f->more)); break;
    case MGPU_FIELD_TYPE: set_small(f, base, mgpu_read_type(r)); break;
    case MGPU_FIELD_TYPE_OR_NONE: set_small(f, base, 1 + mgpu_read_type(r)); break;
    case MGPU_FIELD_CHOICE: set_small(f, base, mgpu_read_choice(r, what, f->names, f->name_count)); break;
    case MGPU_FIELD_DIGEST: MGPU_MEMBER(uint32_t, base, f->at) = mgpu_read_digest(r); break;
    default: r->special(r, f, base); break;
    }
}

void mgpu_read_fields(mgpu_reader *r, const mgpu_record *record, void *base)
{
    bool before = false;
    for (int i = 0; i < record->field_count; i++) {
        const mgpu_field *f = &record->fields[i];
        bool special = f->kind >= MGPU_FIELD_KINDS;
        bool there = !special && f->word && !(f->within && !before) && mgpu_take_word(r, f->word);
        if (!special && f->word && !there && !f->optional && !f->within)
            mgpu_need(r, f->word);
        if (special || !f->word || there || !(f->optional || f->within))
            mgpu_read_field(r, f, base);
        else
            mgpu_set_usual(f, base);
        before = f->within ? before : there;
    }
}
