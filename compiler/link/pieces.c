/* pieces.c: Program -> pieces, the texts that are compiled.
 *
 * A unit is a kernel, or kernels that share a body, without comments and with names that say nothing of where it stands:
 * `k12_body` becomes `f0_body`. A hash of this text, after words of the kernel's title, is its name for the other pieces.
 * Units of neighbours are put together until they are worth a run of the C compiler; a piece ends after units whose hash
 * says so, with a chance that grows with their length. So a changed kernel changes its piece and at most the next, wherever
 * it stands and however the others are numbered (content-defined chunking: Muthitacharoen et al., A Low-bandwidth Network
 * File System, 2001).
 *
 * The tables of every plan are a piece, all others one more. */
#include "compiler/base/c_text.h"
#include "compiler/ir/program.h"
#include "compiler/kernel/target.h"
#include "compiler/link/pieces.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_PIECE = 16 << 10, MOST_PIECE = 32 << 10, /* bytes of text; a run of the C compiler costs as much as 2 KiB of it */
    PIECES = 16,                                  /* of a program that is neither small nor large */
    LARGE_PIECE = 64 << 10,                       /* for a compiler that needs longer for the headers than for 16 KiB of kernels */
    UNIT_BYTES = 300                              /* what a kernel costs in any case, as text */
};

typedef struct Unit {
    const Kernel **kernels;
    int count;
    size_t bytes;       /* of its text, and UNIT_BYTES for each kernel */
    Digest digest;
    const Target *target;
    const char *prefix; /* of the names of its kernels: prefix + place in the unit */
} Unit;

/* C text without its comments, and the spaces before them */
static void add_without_comments(const char *text, Text *out)
{
    for (const char *comment; (comment = strstr(text, "/*")); text = comment) {
        text_bytes(out, text, (size_t)(comment - text));
        while (out->length && out->data[out->length - 1] == ' ')
            out->length--;
        const char *end = strstr(comment + 2, "*/");
        comment = end ? end + 2 : comment + strlen(comment);
    }
    text_add(out, "%s", text);
}

/* the kernels as if they were called by the prefix and their place */
static void unit_text(const Unit *u, const char *prefix, Text *out)
{
    Text text = {0};
    Kernel *own = NEW_ARRAY(Kernel, u->count);
    for (int i = 0; i < u->count; i++) {
        own[i] = *u->kernels[i];
        own[i].name = format("%s%d", prefix, i);
        own[i].body = own[i].body ? &own[0] : NULL;
        u->target->print(&own[i], &text);
    }
    add_without_comments(text_of(&text), out);
    free(text.data);
}

/* ---- units */

/* what a kernel's title says it computes, as a part of a C name, for profilers: "fc: t12_relu, w.fc.weight  [n, 10] f32" is
 * "relu_weight_n_10_f32_". It leaves out where the kernel belongs: others of equal text are the same. */
static const char *title_words(const char *title)
{
    const char *colon = title ? strstr(title, ": ") : NULL;
    Text words = {0};
    for (const char *at = colon ? colon + 2 : title; at && *at && words.length < 40;) {
        size_t length = strcspn(at, ", []"), tail = length;
        while (tail && at[tail - 1] != '.')
            tail--;
        size_t number = at[tail] == 't' ? 1 + strspn(at + tail + 1, "0123456789") : 0;
        if (number > 1 && at[tail + number] == '_')
            tail += number + 1;
        text_add(&words, "%s%s", c_letters(at + tail, length - tail), length ? "_" : "");
        at += length;
        at += strspn(at, ", []");
    }
    return text_take(&words);
}

static Unit *find_units(const Program *p, int *count, int *unit_of)
{
    Unit *units = NULL;
    *count = 0;
    for (int i = 0; i < p->kernel_count; i++) {
        const Kernel *k = p->kernels[i];
        bool shared = k->body && k->body != k && k->body->body_users > 1;
        if (k->canonical)
            continue;
        if (shared) {
            unit_of[i] = unit_of[k->body->number];
        } else {
            unit_of[i] = *count;
            APPEND(units, *count, (Unit){0});
        }
        Unit *u = &units[unit_of[i]];
        u->target = p->target;
        APPEND(u->kernels, u->count, k);
    }
    for (int i = 0; i < p->kernel_count; i++)
        if (p->kernels[i]->canonical)
            unit_of[i] = unit_of[p->kernels[i]->canonical->number];
    for (int i = 0; i < *count; i++) {
        Text text = {0};
        unit_text(&units[i], "f", &text);
        units[i].bytes = text.length + UNIT_BYTES * (size_t)units[i].count;
        units[i].digest = mgpu_sha256_of(text_of(&text), text.length);
        const Kernel *first = units[i].kernels[0];
        const char *words = p->target->words ? p->target->words(first) : NULL;
        char digits[65];
        units[i].prefix = format("k_%s%s_", words ? words : title_words(first->title), mgpu_digest_text(&units[i].digest, 8, digits));
        free(text.data);
    }
    return units;
}

/* what the table of kernels refers to */
static const char *exported(const Unit *u, int place) { return format("mgpu_%s%d", u->prefix, place); }

/* ---- pieces */

/* powers of two, so that it changes rarely as a program grows */
static size_t size_of_pieces(const Unit *units, int count)
{
    size_t total = 0, size = LEAST_PIECE;
    for (int i = 0; i < count; i++)
        total += units[i].bytes;
    while (size < MOST_PIECE && size * PIECES < total)
        size *= 2;
    return size;
}

/* at half the size first, at twice at last; `bytes`: of the piece so far, with the unit */
static bool ends_piece(const Unit *u, size_t bytes, size_t size)
{
    uint32_t draw = 0;
    memcpy(&draw, u->digest.bytes, sizeof draw);
    return bytes >= 2 * size || (bytes >= size / 2 && (double)draw < 2.0 * (double)u->bytes / (double)size * 4294967296.0);
}

static Piece kernel_piece(const Target *target, Text units, size_t bytes)
{
    Piece p = {.kernels = !target->images};
    p.cost = target->begin_piece(text_of(&units), bytes, &p.text);
    text_bytes(&p.text, text_of(&units), units.length);
    return p;
}

static void kernel_pieces(const Unit *units, int unit_count, size_t size, Piece **pieces, int *count)
{
    Map known = {0};
    Text text = {0};
    size_t bytes = 0;
    for (int i = 0; i < unit_count; i++) {
        const Unit *u = &units[i];
        if (map_get(&known, u->prefix))
            continue; /* an equal one: it is called by its name */
        map_set(&known, u->prefix, (void *)(uintptr_t)u);
        unit_text(u, u->prefix, &text);
        for (int k = 0; k < u->count && u->target->export; k++)
            u->target->export(u->kernels[k], exported(u, k), format("%s%d", u->prefix, k), &text);
        bytes += u->bytes;
        if (!ends_piece(u, bytes, size))
            continue;
        APPEND(*pieces, *count, kernel_piece(u->target, text, bytes));
        text = (Text){0};
        bytes = 0;
    }
    if (text.length)
        APPEND(*pieces, *count, kernel_piece(units[0].target, text, bytes));
}

static Piece table_piece(Text text)
{
    return (Piece){.text = text, .cost = 0.01 + (double)text.length * 1e-7};
}

void make_pieces(const Program *p, Piece **pieces, int *count)
{
    *pieces = NULL;
    *count = 0;
    int *unit_of = NEW_ARRAY(int, p->kernel_count), unit_count;
    const Unit *units = find_units(p, &unit_count, unit_of);
    for (int i = 0; i < p->plan_count; i++) {
        Text text = {0};
        text_add(&text, "#include \"mgpu.h\"\n");
        emit_plan(p, &p->plans[i], &text);
        APPEND(*pieces, *count, table_piece(text));
    }
    Text text = {0}, rows = {0};
    emit_tables_head(p, &text);
    int *place = NEW_ARRAY(int, unit_count);
    for (int i = 0; i < p->kernel_count; i++) {
        const Kernel *k = p->kernels[i];
        const Unit *u = &units[unit_of[i]];
        int at = k->canonical ? 0 : place[unit_of[i]]++;
        const char *function = p->target->export ? exported(u, at) : format("%s%d", u->prefix, at);
        if (p->target->declare)
            p->target->declare(k, function, &text);
        p->target->print_row(k, function, &rows);
    }
    p->target->print_table(&rows, &text);
    emit_main(p, &text);
    APPEND(*pieces, *count, table_piece(text));
    if (!p->target->images)
        kernel_pieces(units, unit_count, size_of_pieces(units, unit_count), pieces, count);
}

void make_gpu_pieces(const Program *p, bool large, Piece **pieces, int *count)
{
    *pieces = NULL;
    *count = 0;
    int *unit_of = NEW_ARRAY(int, p->kernel_count), unit_count;
    const Unit *units = find_units(p, &unit_count, unit_of);
    kernel_pieces(units, unit_count, large ? LARGE_PIECE : size_of_pieces(units, unit_count), pieces, count);
    for (int i = 0; i < p->plan_count; i++)
        if (p->plans[i].devices > 1) { /* sums over devices are kernels of the runtime */
            Piece sums = {.cost = 1};
            text_add(&sums.text, "#include \"mgpu_device_collective.h\"\n");
            APPEND(*pieces, *count, sums);
            break;
        }
}

GpuFunction *gpu_functions(const Program *p, int *count)
{
    int *unit_of = NEW_ARRAY(int, p->kernel_count), unit_count;
    const Unit *units = find_units(p, &unit_count, unit_of);
    int *place = NEW_ARRAY(int, unit_count);
    GpuFunction *functions = NULL;
    Map known = {0};
    *count = 0;
    for (int i = 0; i < p->kernel_count; i++) {
        const Unit *u = &units[unit_of[i]];
        const char *name = format("%s%d", u->prefix, p->kernels[i]->canonical ? 0 : place[unit_of[i]]++);
        mgpu_launch launch[2];
        if (map_get(&known, name))
            continue;
        map_set(&known, name, &known);
        p->target->launches(p->kernels[i], launch);
        for (int k = 0; k < 2; k++) {
            GpuFunction own = {k ? format("%s_finish", name) : name, p->kernels[i]->at, launch[k].threads, launch[k].shared_bytes};
            if (launch[k].function)
                APPEND(functions, *count, own);
        }
    }
    return functions;
}
