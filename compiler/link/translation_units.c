/* translation_units.c: divide a Program into translation units, which are compiled separately.
 *
 * A family is a kernel, or several kernels that share a body. Its text has no comments, and its names do not depend on its place
 * in the program: `k12_body` becomes `f0_body`. A hash of this text, after words of the kernel's title, is its name in the other
 * units. Neighbouring families are put together until they are worth a run of the C compiler. A unit ends after a family whose
 * hash says so, with a probability that grows with its length. So a changed kernel changes its own unit and at most the next,
 * wherever it is and however the others are numbered (content-defined chunking: Muthitacharoen et al., A Low-bandwidth Network
 * File System, 2001).
 *
 * The tables of plans, and then all other tables, fill units of their own. */
#include "compiler/base/c_text.h"
#include "compiler/ir/program.h"
#include "compiler/kernel/target.h"
#include "compiler/link/translation_units.h"
#include "runtime/abi/mgpu_rounds.h"

#include <stdlib.h>
#include <string.h>

enum {
    LEAST_UNIT = 16 << 10,
    MOST_UNIT = 32 << 10, /* bytes of text; starting the C compiler costs as much as 2 KiB of it */
    UNITS = 16,           /* how many a program that is neither small nor large has */
    LARGE_UNIT = 64 << 10,
    QUICK_UNIT = 512 << 10, /* for virtual GPUs, whose headers take long; without optimisation */
    FAMILY_BYTES = 300,     /* what any kernel costs, in bytes of text */
    TABLE_UNIT = 512 << 10  /* of tables, which compile at 15 MB/s: this takes as long as the C compiler needs to start */
};

typedef struct Family {
    const Kernel **kernels;
    int count;
    size_t bytes; /* of its text, plus FAMILY_BYTES for each kernel */
    Digest digest;
    const Target *target;
    const char *prefix; /* a kernel's name is prefix + place in the family */
    UnitNeeds needs;
} Family;

/* Adds C text without its comments and the spaces before them. */
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

/* Prints the kernels as if their names were the prefix and their place. */
static void family_text(const Family *f, const char *prefix, Text *out)
{
    Text text = {0};
    Kernel *own = NEW_ARRAY(Kernel, f->count);
    for (int i = 0; i < f->count; i++) {
        own[i] = *f->kernels[i];
        own[i].name = format("%s%d", prefix, i);
        own[i].body = own[i].body ? &own[0] : NULL;
        f->target->print(&own[i], &text);
    }
    add_without_comments(text_of(&text), out);
    free(text.data);
}

/* ---- families */

/* Returns what a kernel's title says it computes, as part of a C name, for profilers: "fc: t12_relu, w.fc.weight  [n, 10] f32"
 * gives "relu_weight_n_10_f32_". The layer is left out, because kernels with equal text in other layers are the same. */
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

static Family *find_families(const Program *p, int *count, int *family_of)
{
    Family *families = NULL;
    *count = 0;
    for (int i = 0; i < p->kernel_count; i++) {
        const Kernel *k = p->kernels[i];
        bool shared = k->body && k->body != k && k->body->body_users > 1;
        if (k->canonical)
            continue;
        if (shared) {
            family_of[i] = family_of[k->body->number];
        } else {
            family_of[i] = *count;
            APPEND(families, *count, (Family){0});
        }
        Family *f = &families[family_of[i]];
        f->target = p->target;
        APPEND(f->kernels, f->count, k);
    }
    for (int i = 0; i < p->kernel_count; i++)
        if (p->kernels[i]->canonical)
            family_of[i] = family_of[p->kernels[i]->canonical->number];
    for (int i = 0; i < *count; i++) {
        Text text = {0};
        family_text(&families[i], "f", &text);
        families[i].bytes = text.length + FAMILY_BYTES * (size_t)families[i].count;
        families[i].digest = mgpu_sha256_of(text_of(&text), text.length);
        for (int k = 0; k < families[i].count && p->target->needs; k++)
            p->target->needs(families[i].kernels[k], &families[i].needs);
        const Kernel *first = families[i].kernels[0];
        const char *words = p->target->words ? p->target->words(first) : NULL;
        char digits[65];
        families[i].prefix =
            format("k_%s%s_", words ? words : title_words(first->title), mgpu_digest_text(&families[i].digest, 8, digits));
        free(text.data);
    }
    return families;
}

/* Returns the name by which the table of kernels refers to the function. */
static const char *exported(const Family *f, int place) { return format("mgpu_%s%d", f->prefix, place); }

/* ---- translation units */

/* Returns a power of two, so that it changes rarely as a program grows. */
static size_t size_of_units(const Family *families, int count)
{
    size_t total = 0, size = LEAST_UNIT;
    for (int i = 0; i < count; i++)
        total += families[i].bytes;
    while (size < MOST_UNIT && size * UNITS < total)
        size *= 2;
    return size;
}

/* Returns whether a unit ends after the family: never before half the size, always at twice the size. `bytes`: of the unit so
 * far, with the family. */
static bool ends_unit(const Family *f, size_t bytes, size_t size)
{
    uint32_t hash = 0;
    memcpy(&hash, f->digest.bytes, sizeof hash);
    return bytes >= 2 * size || (bytes >= size / 2 && (double)hash < 2.0 * (double)f->bytes / (double)size * 4294967296.0);
}

static void add_kernel_unit(const Target *target, const UnitNeeds *needs, Text text, size_t bytes, TranslationUnit **units,
                            int *count)
{
    TranslationUnit unit = {.kernels = !target->images, .warpgroups = needs->warpgroups};
    unit.cost = target->begin_unit(needs, bytes, &unit.text);
    text_bytes(&unit.text, text_of(&text), text.length);
    APPEND(*units, *count, unit);
}

/* Makes the units of the families with, or of those without, code for warpgroups: their images for sm_90a are compiled separately
 * from PTX. */
static void kernel_units(const Family *families, int family_count, bool warpgroups, size_t size, TranslationUnit **units,
                         int *count)
{
    const Target *target = NULL;
    UnitNeeds needs = {.warpgroups = warpgroups};
    Map known = {0};
    Text text = {0};
    size_t bytes = 0;
    for (int i = 0; i < family_count; i++) {
        const Family *f = &families[i];
        if (f->needs.warpgroups != warpgroups || map_get(&known, f->prefix))
            continue; /* an equal family is already there, under the same name */
        map_set(&known, f->prefix, (void *)(uintptr_t)f);
        family_text(f, f->prefix, &text);
        for (int k = 0; k < f->count && f->target->export; k++)
            f->target->export(f->kernels[k], exported(f, k), format("%s%d", f->prefix, k), &text);
        bytes += f->bytes;
        needs.headers |= f->needs.headers;
        needs.slow += f->needs.slow;
        target = f->target;
        if (!ends_unit(f, bytes, size))
            continue;
        add_kernel_unit(target, &needs, text, bytes, units, count);
        needs = (UnitNeeds){.warpgroups = warpgroups};
        text = (Text){0};
        bytes = 0;
    }
    if (text.length)
        add_kernel_unit(target, &needs, text, bytes, units, count);
}

static void end_table_unit(Text *text, TranslationUnit **units, int *count)
{
    TranslationUnit unit = {.text = *text, .cost = 0.01 + (double)text->length * 1e-7};
    APPEND(*units, *count, unit);
    *text = (Text){0};
}

/* Returns whether CC compiles without optimisation. Then starting and the headers take longer than kernels (measured with clang
 * 14: 38 ms, and 15 for 16 KiB of them). */
static bool is_quick(const char *cc)
{
    bool quick = false;
    for (const char *word = cc; (word = strstr(word, " -O")); word++)
        quick = word[3] == '0';
    return quick;
}

void make_units(const Program *p, TranslationUnit **units, int *count)
{
    *units = NULL;
    *count = 0;
    int *family_of = NEW_ARRAY(int, p->kernel_count), family_count;
    const Family *families = find_families(p, &family_count, family_of);
    Text text = {0}, rows = {0};
    for (int i = 0; i < p->plan_count; i++) {
        if (text.length > TABLE_UNIT)
            end_table_unit(&text, units, count);
        if (!text.length)
            text_add(&text, "#include \"mgpu.h\"\n");
        emit_plan(p, &p->plans[i], &text);
    }
    if (text.length > TABLE_UNIT)
        end_table_unit(&text, units, count);
    emit_tables_head(p, &text);
    int *place = NEW_ARRAY(int, family_count);
    for (int i = 0; i < p->kernel_count; i++) {
        const Kernel *k = p->kernels[i];
        const Family *f = &families[family_of[i]];
        int at = k->canonical ? 0 : place[family_of[i]]++;
        const char *function = p->target->export ? exported(f, at) : format("%s%d", f->prefix, at);
        if (p->target->declare)
            p->target->declare(k, function, &text);
        p->target->print_row(k, function, &rows);
    }
    p->target->print_table(&rows, &text);
    emit_main(p, &text);
    end_table_unit(&text, units, count);
    if (!p->target->images)
        kernel_units(families, family_count, false, is_quick(p->options->cc) ? QUICK_UNIT : size_of_units(families, family_count),
                     units, count);
}

static bool gathers(const Program *p)
{
    for (int i = 0; i < p->phase_count; i++)
        for (int t = 0; t < p->phases[i]->task_count; t++)
            if (p->phases[i]->tasks[t]->kind == TASK_TRANSFER && mgpu_gathers(p->phases[i]->tasks[t]->participants.transfer))
                return true;
    return false;
}

void make_gpu_units(const Program *p, bool large, TranslationUnit **units, int *count)
{
    *units = NULL;
    *count = 0;
    int *family_of = NEW_ARRAY(int, p->kernel_count), family_count;
    const Family *families = find_families(p, &family_count, family_of);
    size_t size = !large ? size_of_units(families, family_count) : is_quick(p->options->cxx) ? QUICK_UNIT : LARGE_UNIT;
    for (int warpgroups = 0; warpgroups < 2; warpgroups++)
        kernel_units(families, family_count, warpgroups, size, units, count);
    const char *others = p->target->runtime_kernels(p);
    if (others) {
        TranslationUnit unit = {.cost = 0.3};
        text_add(&unit.text, "%s", others);
        APPEND(*units, *count, unit);
    }
    for (int i = 0; i < p->plan_count; i++)
        if (p->plans[i].devices > 1) { /* all-reduces are kernels of the runtime */
            TranslationUnit sums = {.cost = 1};
            text_add(&sums.text, "#include \"mgpu_device_one_shot.h\"\n%s",
                     gathers(p) ? "#include \"mgpu_device_bits.h\"\n" : "");
            APPEND(*units, *count, sums);
            break;
        }
    if (p->model->exact) {
        TranslationUnit trees = {.cost = 0.5};
        text_add(&trees.text, "#include \"mgpu_device_exact.h\"\n");
        APPEND(*units, *count, trees);
    }
}

GpuFunction *gpu_functions(const Program *p, int *count)
{
    int *family_of = NEW_ARRAY(int, p->kernel_count), family_count;
    const Family *families = find_families(p, &family_count, family_of);
    int *place = NEW_ARRAY(int, family_count);
    GpuFunction *functions = NULL;
    Map known = {0};
    *count = 0;
    for (int i = 0; i < p->kernel_count; i++) {
        const Family *f = &families[family_of[i]];
        const char *name = format("%s%d", f->prefix, p->kernels[i]->canonical ? 0 : place[family_of[i]]++);
        mgpu_launch launch[2];
        if (map_get(&known, name))
            continue;
        map_set(&known, name, &known);
        p->target->launches(p->kernels[i], launch);
        for (int k = 0; k < 2; k++) {
            GpuFunction own = {k ? format("%s_finish", name) : name, p->kernels[i]->at, launch[k].threads,
                               launch[k].shared_bytes};
            if (launch[k].function)
                APPEND(functions, *count, own);
        }
    }
    return functions;
}
