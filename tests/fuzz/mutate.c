/* mutate.c: an input of the corpus -> one like it. A few changes at once: of bits, bytes and runs of bytes; in text of
 * lines and tokens too, with tokens of another input or of the target's words; and parts of two inputs joined. */
#include "tests/fuzz/fuzz.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t random_bits(Random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

size_t random_below(Random *r, size_t n) { return n ? (size_t)(random_bits(r) % n) : 0; }

/* ---- parts */
static bool one_of(const char *set, uint8_t c) { return c && strchr(set, c); }

typedef struct Part {
    size_t begin, end;
} Part;

static size_t token_end(const Bytes *b, size_t at)
{
    const uint8_t *d = b->data;
    size_t i = at;
    if (isalpha(d[i]) || d[i] == '_') {
        while (i < b->length && (isalnum(d[i]) || d[i] == '_'))
            i++;
    } else if (isdigit(d[i])) {
        while (i < b->length && (isalnum(d[i]) || d[i] == '.' || d[i] == '_'))
            i++;
    } else if (isspace(d[i])) {
        while (i < b->length && isspace(d[i]))
            i++;
    } else if (d[i] == '"') {
        for (i++; i < b->length && d[i] != '"' && d[i] != '\n'; i++)
            i += d[i] == '\\';
        i = i < b->length ? i + 1 : b->length;
    } else if (d[i] == '#') {
        while (i < b->length && d[i] != '\n')
            i++;
    } else {
        i++;
        if (i < b->length && one_of("|*/=!<>", d[at]) && one_of(">*/=", d[i]))
            i++;
    }
    return i > at ? i : at + 1;
}

/* a random token that is no blank */
static Part pick_token(Random *r, const Bytes *b)
{
    size_t count = 0;
    Part chosen = {0, 0};
    for (size_t at = 0; at < b->length;) {
        size_t end = token_end(b, at);
        if (!isspace(b->data[at]) && random_below(r, ++count) == 0)
            chosen = (Part){at, end};
        at = end;
    }
    return chosen;
}

static Part pick_lines(Random *r, const Bytes *b, size_t most)
{
    size_t from = random_below(r, b->length + 1), count = 1 + random_below(r, most);
    while (from > 0 && b->data[from - 1] != '\n')
        from--;
    size_t end = from;
    while (end < b->length && count > 0)
        count -= b->data[end++] == '\n';
    return (Part){from, end};
}

static Part pick_run(Random *r, const Bytes *b)
{
    size_t from = random_below(r, b->length + 1), room = b->length - from;
    size_t length = random_below(r, 4) ? random_below(r, 9) : random_below(r, room + 1);
    return (Part){from, from + (length < room ? length : room)};
}

/* ---- changes */
static void replace(Bytes *b, size_t most, Part old, const uint8_t *with, size_t length)
{
    size_t kept = b->length - (old.end - old.begin);
    if (kept + length > most)
        length = most > kept ? most - kept : 0;
    uint8_t *data = malloc(kept + length + 1);
    if (!data)
        abort();
    memcpy(data, b->data, old.begin);
    if (length)
        memcpy(data + old.begin, with, length);
    memcpy(data + old.begin + length, b->data + old.end, b->length - old.end);
    free(b->data);
    b->data = data;
    b->length = kept + length;
    b->data[b->length] = 0;
}

static void replace_text(Bytes *b, size_t most, Part old, const char *with)
{
    replace(b, most, old, (const uint8_t *)with, strlen(with));
}

static void change_bytes(Random *r, Bytes *b, size_t most)
{
    static const uint8_t EDGES[] = {0, 1, 0x7f, 0x80, 0xff, '\n', ' ', '"', '0', '9'};
    uint8_t bytes[8];
    Part at = pick_run(r, b);
    size_t n = at.begin;
    switch (random_below(r, 6)) {
    case 0:
        if (n < b->length)
            b->data[n] = (uint8_t)(b->data[n] ^ 1u << random_below(r, 8));
        break;
    case 1:
        if (n < b->length)
            b->data[n] = random_below(r, 2) ? EDGES[random_below(r, sizeof EDGES)] : (uint8_t)random_bits(r);
        break;
    case 2:
        bytes[0] = random_below(r, 2) ? EDGES[random_below(r, sizeof EDGES)] : (uint8_t)random_bits(r);
        replace(b, most, (Part){n, n}, bytes, 1);
        break;
    case 3: replace(b, most, at, NULL, 0); break;
    case 4: { /* a run, again somewhere else */
        size_t length = at.end - at.begin, to = random_below(r, b->length + 1);
        uint8_t *run = malloc(length + 1);
        if (!run)
            abort();
        memcpy(run, b->data + at.begin, length);
        replace(b, most, (Part){to, to}, run, length);
        free(run);
        break;
    }
    default: { /* a number of 1 to 8 bytes, of either order */
        static const int64_t NUMBERS[] = {0,   1,     -1,    2,         7,         8,          9,         255,
                                          256, 32767, 65535, INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN};
        size_t width = (size_t)1 << random_below(r, 4);
        uint64_t v = (uint64_t)NUMBERS[random_below(r, sizeof NUMBERS / sizeof *NUMBERS)];
        bool big = random_below(r, 2);
        for (size_t i = 0; i < width && n + i < b->length; i++)
            b->data[n + i] = (uint8_t)(v >> 8 * (big ? width - 1 - i : i));
    }
    }
}

static const char *some_number(Random *r, char text[32])
{
    /* clang-format off */
    static const char *const NUMBERS[] = {
        "0", "1", "2", "3", "7", "8", "9", "16", "64", "255", "1000", "65536", "2147483647", "2147483648", "4294967296",
        "9223372036854775807", "9223372036854775808", "-1", "-9223372036854775808", "0.0", "0.5", "1e-4", "1e30",
        "1e308", "1e309", "1e-400", "0.1", "3epochs", "2steps", "1_000"};
    /* clang-format on */
    if (random_below(r, 3) == 0)
        snprintf(text, 32, "%d", (int)random_below(r, 40) - 4);
    else
        snprintf(text, 32, "%s", NUMBERS[random_below(r, sizeof NUMBERS / sizeof *NUMBERS)]);
    return text;
}

static const char *some_word(Random *r, const FuzzTarget *t)
{
    size_t count = 0;
    while (t->words && t->words[count])
        count++;
    return count ? t->words[random_below(r, count)] : "";
}

static int class_of(const Bytes *b, Part token) /* a name, a number, a text, a bracket or another sign */
{
    uint8_t c = token.begin < b->length ? b->data[token.begin] : 0;
    return isalpha(c) || c == '_' ? 1 : isdigit(c) ? 2 : c == '"' ? 3 : one_of("([{)]},", c) ? 4 : 5;
}

/* a token becomes another one of its kind, of this text or the other: what comes of it often makes sense */
static void change_likely(Random *r, const FuzzTarget *t, Bytes *b, Bytes other)
{
    Part here = pick_token(r, b), there = here;
    const Bytes *from = random_below(r, 3) ? b : &other;
    uint8_t copy[64];
    for (int tries = 0; tries < 20; tries++) {
        there = pick_token(r, from);
        size_t length = there.end - there.begin;
        if (class_of(from, there) != class_of(b, here) || length > sizeof copy)
            continue;
        memcpy(copy, from->data + there.begin, length);
        replace(b, t->most, here, copy, length);
        return;
    }
}

static void change_text(Random *r, const FuzzTarget *t, Bytes *b, Bytes other)
{
    if (random_below(r, 2)) {
        change_likely(r, t, b, other);
        return;
    }
    char number[32], text[256];
    Part here = pick_token(r, b), there = pick_token(r, &other), line = pick_lines(r, b, 3), lines = pick_lines(r, &other, 6);
    size_t from = here.begin, most = t->most;
    switch (random_below(r, 10)) {
    case 0: replace(b, most, here, other.data + there.begin, there.end - there.begin); break;
    case 1: replace_text(b, most, here, some_word(r, t)); break;
    case 2:
        snprintf(text, sizeof text, " %s ", some_word(r, t));
        replace_text(b, most, (Part){from, from}, text);
        break;
    case 3: replace(b, most, here, NULL, 0); break;
    case 4: /* a number becomes another one */
        for (int tries = 0; tries < 20 && here.end > here.begin && !isdigit(b->data[here.begin]); tries++)
            here = pick_token(r, b);
        replace_text(b, most, here, some_number(r, number));
        break;
    case 5: { /* two tokens change places; or one stands twice */
        Part second = pick_token(r, b);
        size_t length = second.end - second.begin;
        uint8_t *copy = malloc(length + 1);
        if (!copy)
            abort();
        memcpy(copy, b->data + second.begin, length);
        replace(b, most, here, copy, length);
        free(copy);
        break;
    }
    case 6: replace(b, most, line, NULL, 0); break;
    case 7: replace(b, most, (Part){line.begin, line.begin}, other.data + lines.begin, lines.end - lines.begin); break;
    case 8: replace(b, most, line, other.data + lines.begin, lines.end - lines.begin); break;
    default: { /* a bracketed part of the one into the other */
        size_t open = there.begin, end = there.end;
        while (open < other.length && !one_of("([{", other.data[open]))
            open++;
        int depth = 0;
        for (end = open; end < other.length; end++) {
            depth += one_of("([{", other.data[end]) ? 1 : one_of(")]}", other.data[end]) ? -1 : 0;
            if (depth == 0)
                break;
        }
        if (end < other.length)
            replace(b, most, here, other.data + there.begin, end + 1 - there.begin);
    }
    }
}

static void splice(Random *r, const FuzzTarget *t, Bytes *b, Bytes other)
{
    size_t cut = random_below(r, b->length + 1), from = random_below(r, other.length + 1);
    if (t->text) {
        Part a = pick_lines(r, b, 1), c = pick_lines(r, &other, 1);
        cut = a.begin;
        from = c.begin;
    }
    replace(b, t->most, (Part){cut, b->length}, other.data + from, other.length - from);
}

Bytes mutate(Random *r, const FuzzTarget *t, Bytes from, Bytes other)
{
    Bytes b = {malloc(from.length + 1), from.length};
    if (!b.data)
        abort();
    memcpy(b.data, from.data, from.length);
    b.data[b.length] = 0;
    if (random_below(r, 8) == 0)
        splice(r, t, &b, other);
    size_t count = random_below(r, 2) ? 1 : (size_t)2 << random_below(r, 3); /* what is changed little gets further */
    for (size_t i = 0; i < count; i++) {
        if (t->text && random_below(r, 10) > 0)
            change_text(r, t, &b, other);
        else if (!t->text && t->words && random_below(r, 6) == 0)
            replace_text(&b, t->most, pick_run(r, &b), some_word(r, t));
        else
            change_bytes(r, &b, t->most);
    }
    return b;
}
