/* base.c: memory, text, maps, files; see base.h. */
#include "compiler/base/base.h"
#include "runtime/base/spelling.h"
#include "runtime/base/terminal.h"
#include "runtime/base/whole_file.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory */

/* Requests of up to BIT bytes share chunks; larger ones have their own. For ASan every request has its own chunk, so that it
 * detects accesses beyond the end. */
#ifdef __SANITIZE_ADDRESS__
enum { FIRST_CHUNK = 1 << 10, CHUNK = 1 << 20, BIT = 0 };
#else
enum { FIRST_CHUNK = 1 << 10, CHUNK = 1 << 20, BIT = CHUNK / 4 };
#endif

void no_memory(size_t bytes) { fail(3, "no memory for %zu bytes more", bytes); }

typedef struct Chunk {
    struct Chunk *before;
    char pad[8];
} Chunk; /* at the beginning of each */
struct Memory {
    Chunk *last;
    char *at;
    size_t left, next; /* bytes of the next chunk; the first ones are small */
};

static Memory until_exit = {.next = CHUNK}, *in_use = &until_exit;

Memory *memory_new(void)
{
    Memory *m = calloc(1, sizeof *m);
    if (!m)
        no_memory(sizeof *m);
    m->next = FIRST_CHUNK;
    return m;
}

Memory *memory_in_use(void) { return in_use; }

Memory *memory_use(Memory *m)
{
    Memory *before = in_use;
    in_use = m;
    return before;
}

void memory_free(Memory *m)
{
    if (m == in_use)
        die("memory that is in use is given back");
    for (Chunk *c = m->last, *before; c; c = before) {
        before = c->before;
        free(c);
    }
    free(m);
}

void memory_join(Memory *to, Memory *from)
{
    Chunk **end = &from->last;
    while (*end)
        end = &(*end)->before;
    *end = to->last;
    to->last = from->last;
    free(from);
}

static char *new_chunk(Memory *m, size_t bytes)
{
    Chunk *c = calloc(1, sizeof *c + bytes);
    if (!c)
        no_memory(sizeof *c + bytes);
    c->before = m->last;
    m->last = c;
    return (char *)(c + 1);
}

void *allocate(size_t bytes)
{
    Memory *m = in_use;
    if (bytes > BIT)
        return new_chunk(m, bytes);
    bytes = bytes ? (bytes + 15) & ~(size_t)15 : 16;
    while (bytes > m->left) {
        m->at = new_chunk(m, m->left = m->next - sizeof(Chunk));
        m->next = m->next < CHUNK ? 2 * m->next : CHUNK;
    }
    void *result = m->at;
    m->at += bytes;
    m->left -= bytes;
    return result;
}

void *grow(void *old, size_t old_bytes, size_t new_bytes)
{
    void *block = allocate(new_bytes);
    if (old_bytes)
        memcpy(block, old, old_bytes);
    return block;
}

/* ---- text */

const char *copy_text(const char *text, size_t length)
{
    char *copy = allocate(length + 1);
    memcpy(copy, text, length);
    return copy;
}

const char *last_word(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

const char *vformat(const char *pattern, va_list arguments)
{
    if (pattern == NULL) /* otherwise gcc with UBSan assumes this case at the second vsnprintf and warns */
        die("no format");
    char small[256];
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(small, sizeof small, pattern, again);
    va_end(again);
    if (length < 0)
        die("a format cannot be printed: %s", pattern);
    if ((size_t)length < sizeof small)
        return copy_text(small, (size_t)length);
    char *text = allocate((size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, pattern, arguments);
    return text;
}

const char *format(const char *pattern, ...)
{
    va_list arguments;
    va_start(arguments, pattern);
    const char *text = vformat(pattern, arguments);
    va_end(arguments);
    return text;
}

void text_bytes(Text *t, const void *bytes, size_t length)
{
    if (t->length + length + 1 > t->capacity) {
        size_t capacity = t->capacity ? t->capacity : 256;
        while (capacity < t->length + length + 1)
            capacity *= 2;
        char *data = realloc(t->data, capacity); /* long texts would waste the arena */
        if (!data)
            no_memory(capacity);
        t->data = data;
        t->capacity = capacity;
    }
    memcpy(t->data + t->length, bytes, length);
    t->length += length;
    t->data[t->length] = 0;
}

void text_add(Text *t, const char *pattern, ...)
{
    char small[512];
    va_list arguments, again;
    va_start(arguments, pattern);
    va_copy(again, arguments);
    int length = vsnprintf(small, sizeof small, pattern, arguments);
    va_end(arguments);
    if (length < 0)
        die("a format cannot be printed: %s", pattern);
    if ((size_t)length < sizeof small) {
        text_bytes(t, small, (size_t)length);
    } else {
        const char *large = vformat(pattern, again);
        text_bytes(t, large, (size_t)length);
    }
    va_end(again);
}

const char *text_take(Text *t)
{
    const char *text = copy_text(text_of(t), t->length);
    free(t->data);
    *t = (Text){0};
    return text;
}

const char *plain_text(const char *text, bool lines)
{
    char *plain = mgpu_plain_text(text, lines);
    const char *copy = plain ? copy_text(plain, strlen(plain)) : "";
    free(plain);
    return copy;
}

const char *text_of(const Text *t) { return t->data ? t->data : ""; }

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    uint64_t h = 14695981039346656037ull ^ seed;
    for (size_t i = 0; i < length; i++)
        h = (h ^ p[i]) * 1099511628211ull;
    h ^= h >> 33; /* the finalizer of MurmurHash3 */
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53ull;
    return h ^ h >> 33;
}

uint64_t hash_words(uint64_t seed, const void *words, size_t count)
{
    const char *p = words;
    uint64_t h = 14695981039346656037ull ^ seed;
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, p + i * sizeof word, sizeof word);
        h = (h ^ word) * 0xff51afd7ed558ccdull;
        h ^= h >> 33;
    }
    return h;
}

double logistic(double x)
{
    double e = exp(x < 0 ? x : -x);
    return (x < 0 ? e : 1) / (1 + e);
}

const char *did_you_mean(const char *word, const char *const *names, int count)
{
    const char *best = mgpu_nearest(word, names, count);
    return best ? format("; did you mean '%s'?", best) : "";
}

double unit_factor(const char *text, const char *unit)
{
    static const struct {
        const char *text;
        double factor;
    } PREFIXES[] = {
        {"", 1},        {"k", 1e3},     {"K", 1e3},     {"M", 1e6},     {"G", 1e9},  {"T", 1e12}, {"P", 1e15}, {"Ki", 0x1p10},
        {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"n", 1e-9}, {"u", 1e-6}, {"m", 1e-3},
    };
    for (int i = 0; i < COUNT(PREFIXES); i++) {
        size_t length = strlen(PREFIXES[i].text);
        bool fits = PREFIXES[i].factor >= 1 || strcmp(unit, "s") == 0; /* a thousandth of a byte is never meant */
        if (fits && strncmp(text, PREFIXES[i].text, length) == 0 && strcmp(text + length, unit) == 0)
            return PREFIXES[i].factor;
    }
    return 0;
}

double bytes_in_text(const char *text)
{
    char *unit;
    double n = strtod(text, &unit);
    bool letter = *unit && !unit[1] && *unit != 'B'; /* K, M, G and T are powers of 1024 */
    double each = !*unit ? 1 : unit_factor(letter ? format("%ciB", toupper((unsigned char)*unit)) : unit, "B");
    return unit != text && each > 0 && n >= 0 && n * each < 0x1p62 ? n * each : -1;
}

static int map_slot(const Map *m, const char *key)
{
    uint64_t h = hash_bytes(0, key, strlen(key));
    int at = (int)(h & (uint64_t)(m->slot_count - 1));
    while (m->slots[at] && strcmp(m->keys[m->slots[at] - 1], key) != 0)
        at = (at + 1) & (m->slot_count - 1);
    return at;
}

void *map_get(const Map *m, const char *key)
{
    if (!m->slot_count)
        return NULL;
    int at = m->slots[map_slot(m, key)];
    return at ? m->values[at - 1] : NULL;
}

void map_set(Map *m, const char *key, void *value)
{
    if (2 * (m->count + 1) > m->slot_count) {
        m->slot_count = m->slot_count ? 2 * m->slot_count : 16;
        m->slots = NEW_ARRAY(int, m->slot_count);
        for (int i = 0; i < m->count; i++)
            m->slots[map_slot(m, m->keys[i])] = i + 1;
    }
    int at = map_slot(m, key);
    if (m->slots[at]) {
        m->values[m->slots[at] - 1] = value;
        return;
    }
    int count = m->count;
    APPEND(m->keys, m->count, key);
    APPEND(m->values, count, value);
    m->slots[at] = m->count;
}

char *read_file(const char *path, size_t *length)
{
    const char *refused;
    size_t bytes;
    char *text = mgpu_read_whole(path, &bytes, &refused);
    if (refused)
        fail(1, "%s cannot be read: %s", path, refused);
    if (length)
        *length = bytes;
    return text;
}
