/* unicode.c: properties and normal forms of characters from libutf8proc, which is opened on first use.
 *
 * They are those of the tokenizers package, which trained the models: its tables are from older versions of Unicode than
 * libutf8proc's, and one from a newer one. The characters that differ are listed here. */
#include "runtime/data/unicode_library.h"
#include "runtime/base/base.h"
#include "runtime/base/context.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { FORM_STABLE = 2, FORM_COMPATIBLE = 4, FORM_COMPOSED = 8, FORM_DECOMPOSED = 16 };
enum {
    MARK = 6,
    MARK_SPACING = 7,
    MARK_ENCLOSING = 8,
    PUNCTUATION = 12,
    PUNCTUATION_LAST = 18,
    CONTROL = 26,
    CONTROL_LAST = 29
}; /* categories */

static struct Library {
    ptrdiff_t (*map)(const uint8_t *, ptrdiff_t, uint8_t **, int);
    int (*category)(int32_t);
    int32_t (*lower)(int32_t);
    bool (*breaks)(int32_t, int32_t, int32_t *);
} library;
static const struct Symbol {
    const char *name;
    void *at;
} SYMBOLS[] = {{"utf8proc_map", &library.map},
               {"utf8proc_category", &library.category},
               {"utf8proc_tolower", &library.lower},
               {"utf8proc_grapheme_break_stateful", &library.breaks}};

static void open_library(void)
{
    static const char *const NAMES[] = {"libutf8proc.so.3", "libutf8proc.so.2", "libutf8proc.so"};
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool open;
    const char *named = getenv("MGPU_UTF8PROC"), *missing = NULL;
    pthread_mutex_lock(&lock);
    void *handle = open ? &library : named && *named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (int i = 0; i < MGPU_COUNT(NAMES) && !handle && !(named && *named); i++)
        handle = dlopen(NAMES[i], RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < MGPU_COUNT(SYMBOLS) && handle && !open && !missing; i++) {
        void *symbol = dlsym(handle, SYMBOLS[i].name);
        missing = symbol ? NULL : SYMBOLS[i].name;
        memcpy(SYMBOLS[i].at, &symbol, sizeof symbol);
    }
    open = handle && !missing;
    pthread_mutex_unlock(&lock);
    if (!handle || missing)
        mgpu_fail(MGPU_MACHINE_FAILED,
                  "this vocabulary has rules for characters of Unicode, for which libutf8proc is needed, and %s%s (package "
                  "libutf8proc2; the "
                  "variable MGPU_UTF8PROC names its file)",
                  missing ? "it lacks " : "it is not there", missing ? missing : "");
}

/* ---- characters that the tokenizers package does not know */
typedef struct Range {
    uint32_t first, last;
} Range;

static bool is_in(const Range *ranges, int count, uint32_t c)
{
    for (int i = 0; i < count; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return true;
    return false;
}

/* True for marks, punctuation and control characters that are too new for BERT's rules. The ranges also have other characters. */
static bool is_later(uint32_t c)
{
    static const Range LATER[] = {
        {0x61d, 0x61d},     {0x7fd, 0x7fd},     {0x890, 0x8e2},     {0x9fd, 0x9fe},     {0xa76, 0xa76},     {0xafa, 0xaff},
        {0xb55, 0xb55},     {0xc04, 0xc3c},     {0xc77, 0xc77},     {0xc84, 0xc84},     {0xd00, 0xd00},     {0xd3b, 0xd3c},
        {0xd81, 0xd81},     {0xeba, 0xeba},     {0xece, 0xece},     {0x180f, 0x1886},   {0x1abf, 0x1ace},   {0x1b7d, 0x1b7e},
        {0x1df6, 0x1dfb},   {0x2e43, 0x2e5d},   {0xa82c, 0xa82c},   {0xa8c5, 0xa8c5},   {0xa8ff, 0xa8ff},   {0xa9bd, 0xa9bd},
        {0x10d24, 0x10f89}, {0x11070, 0x11074}, {0x110c2, 0x110cd}, {0x111c9, 0x111c9}, {0x111cf, 0x111cf}, {0x1123e, 0x11241},
        {0x1133b, 0x1133b}, {0x11438, 0x1145e}, {0x11660, 0x1166c}, {0x116b9, 0x116b9}, {0x1182f, 0x11fff}, {0x12ff1, 0x13455},
        {0x16e97, 0x16f4f}, {0x16fe2, 0x16fe4}, {0x1cf00, 0x1cf46}, {0x1e000, 0x1e4ef}, {0x1e944, 0x1e95f}};
    return is_in(LATER, MGPU_COUNT(LATER), c);
}

static bool is_later_mark(uint32_t c)
{
    static const Range LATER[] = {
        {0x7fd, 0x7fd},     {0x898, 0x8d3},     {0x9fe, 0x9fe},     {0xafa, 0xaff},     {0xb55, 0xb55},     {0xc04, 0xc3c},
        {0xcf3, 0xd00},     {0xd3b, 0xd3c},     {0xd81, 0xd81},     {0xeba, 0xeba},     {0xece, 0xece},     {0x1715, 0x1715},
        {0x180f, 0x180f},   {0x1abf, 0x1ace},   {0x1cf7, 0x1cf7},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0xa8ff, 0xa8ff},
        {0x10d24, 0x10f85}, {0x11070, 0x11074}, {0x110c2, 0x110c2}, {0x11145, 0x11146}, {0x111c9, 0x111c9}, {0x111ce, 0x111cf},
        {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e}, {0x1182c, 0x11a99}, {0x11d31, 0x13455}, {0x16f4f, 0x16f4f},
        {0x16f7f, 0x16f87}, {0x16fe4, 0x16ff1}, {0x1cf00, 0x1cf46}, {0x1e08f, 0x1e4ef}};
    return is_in(LATER, MGPU_COUNT(LATER), c);
}

/* True for characters that decompose, compose or are reordered only in newer versions. */
static bool is_fixed(uint32_t c)
{
    static const Range FIXED[] = {{0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xab69, 0xab69},   {0x10781, 0x107ba},
                                  {0x11930, 0x11938}, {0x1e030, 0x1e06d}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};
    return is_in(FIXED, MGPU_COUNT(FIXED), c) || is_later_mark(c);
}

/* ---- characters */
bool mgpu_is_blank(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static int category(uint32_t c)
{
    open_library();
    return library.category((int32_t)c);
}

bool mgpu_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
    int is = category(c);
    return c == 0x111c9 || c == 0x166d || (is >= PUNCTUATION && is <= PUNCTUATION_LAST && !is_later(c));
}

bool mgpu_is_control(uint32_t c)
{
    if (c < 0x80)
        return (c < ' ' || c == 0x7F) && c != '\t' && c != '\n' && c != '\r';
    int is = category(c);
    return is >= CONTROL && is <= CONTROL_LAST && !is_later(c);
}

bool mgpu_is_mark(uint32_t c, bool any)
{
    int is = c < 0x300 ? 0 : category(c);
    if (any)
        return (is == MARK || is == MARK_SPACING || is == MARK_ENCLOSING || c == 0x1cf2 || c == 0x1cf3) && !is_later_mark(c);
    return (is == MARK && !is_later(c)) || c == 0x1734;
}

int mgpu_lower_of(uint32_t c, uint32_t lower[2])
{
    static const struct {
        uint32_t first, last;
        int32_t by;
    } LOWER[] = {{0x1c89, 0x1c89, 1},
                 {0xa7cb, 0xa7cb, 0x264 - 0xa7cb},
                 {0xa7dc, 0xa7dc, 0x19b - 0xa7dc},
                 {0x10d50, 0x10d65, 0x20},
                 {0x16ea0, 0x16eb8, 0x1b}};
    static const uint32_t NEXT[] = {0xa7cc, 0xa7ce, 0xa7d2, 0xa7d4, 0xa7da};
    lower[0] = c < 0x80 ? c + (c >= 'A' && c <= 'Z' ? 0x20u : 0) : c;
    if (c < 0x80)
        return 1;
    if (c == 0x130) {
        lower[0] = 'i';
        lower[1] = 0x307;
        return 2;
    }
    open_library();
    lower[0] = (uint32_t)library.lower((int32_t)c);
    for (int i = 0; i < MGPU_COUNT(LOWER); i++)
        if (c >= LOWER[i].first && c <= LOWER[i].last)
            lower[0] = (uint32_t)((int32_t)c + LOWER[i].by);
    for (int i = 0; i < MGPU_COUNT(NEXT); i++)
        if (c == NEXT[i])
            lower[0] = c + 1;
    return 1;
}

bool mgpu_breaks_between(uint32_t a, uint32_t b, int32_t *state)
{
    static const Range EXTENDS[] = {/* of Unicode 16 and 17 */
                                    {0x897, 0x897},     {0x1acf, 0x1add},   {0x1ae0, 0x1aeb},   {0x10d69, 0x10d6d},
                                    {0x10efa, 0x10efc}, {0x113b8, 0x113c0}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5},
                                    {0x113c7, 0x113ca}, {0x113cc, 0x113d0}, {0x113d2, 0x113d2}, {0x113e1, 0x113e2},
                                    {0x11b60, 0x11b67}, {0x11f5a, 0x11f5a}, {0x1611e, 0x1612f}, {0x1e5ee, 0x1e5ef},
                                    {0x1e6e3, 0x1e6e3}, {0x1e6e6, 0x1e6e6}, {0x1e6ee, 0x1e6ef}, {0x1e6f5, 0x1e6f5}};
    open_library();
    if (is_in(EXTENDS, MGPU_COUNT(EXTENDS), b))
        return a == '\r' || a == '\n' || a < ' ';
    return library.breaks((int32_t)a, (int32_t)b, state);
}

/* ---- normal forms */
static void add_normal(Bytes *to, const uint8_t *text, int64_t bytes, int form)
{
    uint8_t *made = NULL;
    ptrdiff_t count = bytes ? library.map(text, bytes, &made, form) : 0;
    if (count < 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "libutf8proc cannot normalize a text of %lld bytes", (long long)bytes);
    mgpu_add_bytes(to, made, count);
    free(made);
}

void mgpu_normal_form(Bytes *to, const uint8_t *text, int64_t bytes, bool composed, bool compatible)
{
    int form = FORM_STABLE | (composed ? FORM_COMPOSED : FORM_DECOMPOSED) | (compatible ? FORM_COMPATIBLE : 0);
    int64_t begin = 0, length, plain = 0;
    while (plain < bytes && text[plain] < 0x80)
        plain++;
    if (plain == bytes) {
        mgpu_add_bytes(to, text, bytes);
        return;
    }
    open_library();
    uint32_t c;
    for (int64_t i = 0; i < bytes; i += length) {
        length = mgpu_decode_utf8(text, bytes, i, &c);
        if (!is_fixed(c))
            continue;
        add_normal(to, text + begin, i - begin, form);
        mgpu_add_bytes(to, text + i, length);
        begin = i + length;
    }
    add_normal(to, text + begin, bytes - begin, form);
}
