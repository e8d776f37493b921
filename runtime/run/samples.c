/* samples.c: `predict`'s operands -> a data set.
 *
 *   NAME                   one of the model's data sets
 *   TABLE                  rows with a column for each input, named as in the model's data sets
 *   PICTURE or FOLDER ...  samples of the only input that takes pictures
 *   FILE ...               IDX, .npy or pictures for the inputs in their order, or NAME=FILE; NAME=PICTURE may be repeated
 *
 * - is standard input, from which a table may be read as it arrives. The first bytes of a file decide its kind. Other files are
 *   tables if their name ends in .csv or .tsv, if they are standard input, if the model reads tables, or if they are text and its
 *   columns could be all inputs. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/data/image/image.h"
#include "runtime/run/sets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

typedef enum FileKind { KIND_IDX, KIND_NPY, KIND_PICTURES, KIND_TABLE } FileKind;
typedef struct PredictOperand {
    const char *path;
    FileKind kind;
    int input;
} PredictOperand; /* input -1: not named */
typedef struct Operands {
    PredictOperand *list;
    int count;
} Operands;

static const char STDIN[] = "/dev/stdin";

/* ---- the kind of a file */
/* Saves standard input as a file that can be opened again. */
static void keep_input(Inflow *in)
{
    struct stat status;
    if (fstat(STDIN_FILENO, &status) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "standard input: %s", strerror(errno));
    FILE *kept = S_ISREG(status.st_mode) ? NULL : tmpfile();
    for (bool more = kept; more; more = !in->ended && mgpu_read_inflow(in, true)) {
        fwrite(in->text, 1, in->length, kept);
        in->begin = in->length;
    }
    if (!S_ISREG(status.st_mode) && (!kept || fflush(kept) != 0 || ferror(kept) || dup2(fileno(kept), STDIN_FILENO) < 0))
        mgpu_fail(MGPU_MACHINE_FAILED, "standard input cannot be read or kept: %s", strerror(errno));
    if (kept)
        fclose(kept);
    mgpu_close_inflow(in);
}

static bool ends_in(const char *path, const char *const *ends, int count)
{
    size_t length = strlen(path);
    if (length > 3 && strcasecmp(path + length - 3, ".gz") == 0)
        length -= 3;
    for (int i = 0; i < count; i++) {
        size_t n = strlen(ends[i]);
        if (length >= n && strncasecmp(path + length - n, ends[i], n) == 0)
            return true;
    }
    return false;
}

/* True for stages that are only for training. */
static bool is_left_out(const mgpu_call *call)
{
    return strcmp(call->name, "part") == 0 || strncmp(call->name, "random_", 7) == 0;
}

/* Returns the first of the sets valid, test, train that is a table, or NULL. Tables have its columns. */
static const mgpu_set *set_of_tables(const mgpu_program *p)
{
    static const char *const NAMES[] = {"valid", "test", "train"};
    for (int i = 0; i < MGPU_COUNT(NAMES); i++) {
        const mgpu_set *set = mgpu_find_set(p, NAMES[i]);
        bool table = set && strcmp(set->calls[0].name, "csv") == 0;
        for (int k = 0; table && k < set->column_count; k++)
            table = set->columns[k].input >= 0; /* no stage makes inputs of other columns */
        if (table)
            return set;
    }
    return NULL;
}

/* True if each row of a table is a sample, since no stage follows. */
static bool are_rows_samples(const mgpu_program *p)
{
    const mgpu_set *set = set_of_tables(p);
    for (int i = 1; set && i < set->call_count; i++)
        if (!is_left_out(&set->calls[i]))
            return false;
    return true;
}

/* True for text without control characters except blanks, or a byte order mark of UTF-16, which the reader of tables reports. */
static bool begins_as_text(const uint8_t *bytes, int n)
{
    bool text = n > 0, wide = n >= 2 && ((bytes[0] == 0xff && bytes[1] == 0xfe) || (bytes[0] == 0xfe && bytes[1] == 0xff));
    for (int i = 0; i < n; i++)
        text = text && (bytes[i] >= ' ' || bytes[i] == '\t' || bytes[i] == '\n' || bytes[i] == '\r');
    return text || wide;
}

/* True if columns of a table that the data block does not mention can be the inputs. */
static bool are_columns(const mgpu_program *p, const bool *wanted)
{
    bool all = true;
    for (int i = 0; i < p->input_count; i++)
        all = all && (!wanted[i] || p->inputs[i].tensor.rank <= 1);
    return all;
}

/* Decides by the first bytes of a file. alone: it is the only operand. */
static FileKind kind_by_bytes(const mgpu_program *p, const char *path, const uint8_t bytes[8], int n, const bool *wanted,
                              bool alone)
{
    static const char *const TABLES[] = {".csv", ".tsv"};
    if (n >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0)
        return KIND_NPY;
    if (n >= 4 && memcmp(bytes, "PK\3\4", 4) == 0)
        return KIND_NPY;
    if (mgpu_is_picture(path) || mgpu_image_kind(bytes, n) != IMAGE_UNKNOWN)
        return KIND_PICTURES;
    if (ends_in(path, (const char *const[]){".npy", ".npz"}, 2))
        return KIND_NPY; /* damaged: the reader reports it */
    if (mgpu_reader_of_text(p) && (bytes[0] || bytes[1]))
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s is no .npy or IDX file of windows: %s generate TEXT goes on with a text; predict takes a data set such "
                  "as valid, or windows of numbers",
                  path == STDIN ? "standard input" : path, program_invocation_short_name);
    if (ends_in(path, TABLES, MGPU_COUNT(TABLES)) || path == STDIN || (set_of_tables(p) && !(n >= 2 && !bytes[0] && !bytes[1])) ||
        (alone && begins_as_text(bytes, n) && are_columns(p, wanted)))
        return n >= 4 && !bytes[0] && !bytes[1] ? KIND_IDX : KIND_TABLE;
    return KIND_IDX;
}

static FileKind kind_of(const mgpu_program *p, const char *path, const bool *wanted, bool alone)
{
    struct stat status;
    if (stat(path, &status) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s: %s", path, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return KIND_PICTURES;
    uint8_t bytes[8] = {0};
    gzFile f = S_ISREG(status.st_mode) ? gzopen(path, "rbe") : NULL; /* also reads plain files */
    int n = f ? gzread(f, bytes, sizeof bytes) : 0;
    if (f)
        gzclose(f);
    return kind_by_bytes(p, path, bytes, n, wanted, alone);
}

/* Decides the kind of standard input, and saves it, unless it is a table whose rows can be read as they arrive through *inflow.
 * Packed input is unpacked as a whole. */
static FileKind kind_of_input(const mgpu_program *p, const bool *wanted, bool alone, bool by_rows, Inflow **inflow)
{
    uint8_t bytes[8] = {0};
    Inflow *in = mgpu_open_inflow(STDIN_FILENO);
    if (!in->length)
        mgpu_fail(MGPU_BAD_INPUT, "standard input is empty");
    memcpy(bytes, in->text, in->length < sizeof bytes ? in->length : sizeof bytes);
    bool packed = bytes[0] == 0x1f && bytes[1] == 0x8b;
    if (by_rows && !packed && are_rows_samples(p) &&
        kind_by_bytes(p, STDIN, bytes, in->length < 8 ? (int)in->length : 8, wanted, alone) == KIND_TABLE) {
        *inflow = in;
        return KIND_TABLE;
    }
    keep_input(in);
    return kind_of(p, STDIN, wanted, alone);
}

/* ---- the input of a file */
static int named_input(const mgpu_program *p, const char *operand)
{
    const char *equals = strchr(operand, '=');
    for (int i = 0; equals && i < p->input_count; i++)
        if (strlen(p->inputs[i].tensor.name) == (size_t)(equals - operand) &&
            memcmp(p->inputs[i].tensor.name, operand, (size_t)(equals - operand)) == 0)
            return i;
    return -1;
}

/* Reports NAME=FILE if NAME is no input, unless a file of this name exists. */
static void check_name(const mgpu_program *p, const char *operand)
{
    const char *equals = strchr(operand, '=');
    if (!equals || access(operand, F_OK) == 0)
        return;
    const char **names = mgpu_allocate((size_t)p->input_count, sizeof *names);
    for (int i = 0; i < p->input_count; i++)
        names[i] = p->inputs[i].tensor.name;
    char word[64], near[128];
    snprintf(word, sizeof word, "%.*s", (int)(equals - operand), operand);
    mgpu_fail(MGPU_BAD_USAGE, "%s: there is no such file, and the model has no input '%s'%s", operand, word,
              mgpu_did_you_mean(word, names, p->input_count, near));
}

struct Samples {
    const mgpu_set *set; /* of the model, or */
    const char *table;   /* a table, or */
    Inflow *inflow;      /* a table of standard input, or */
    Operands operands;   /* files; empty if no output depends on an input */
    bool input_taken;    /* standard input is one of them */
};

static PredictOperand operand_of(const mgpu_program *p, const RunOptions *o, const char *text, const bool *wanted, bool by_rows,
                                 Samples *s)
{
    PredictOperand one = {.path = text, .input = named_input(p, text)};
    if (one.input >= 0 && !wanted[one.input])
        mgpu_fail(MGPU_BAD_USAGE, "%s: no output depends on the input '%s'", text, p->inputs[one.input].tensor.name);
    if (one.input >= 0)
        one.path = strchr(text, '=') + 1;
    else
        check_name(p, text);
    if (access(text, F_OK) != 0)
        mgpu_check_later(p, text);
    if (o->operand_count == 1 && p->set_count && !strpbrk(text, "./=-") && access(text, F_OK) != 0)
        mgpu_fail_no_set(p, text, mgpu_format("%s: there is no such file, and ", text));
    if (strcmp(one.path, "-") == 0) {
        if (s->input_taken)
            mgpu_fail(MGPU_BAD_USAGE, "standard input can be one file only");
        s->input_taken = true;
        one.path = STDIN;
    }
    bool alone = o->operand_count == 1 && one.input < 0;
    one.kind =
        one.path == STDIN ? kind_of_input(p, wanted, alone, alone && by_rows, &s->inflow) : kind_of(p, one.path, wanted, alone);
    return one;
}

/* Assigns operands without a name to inputs in their order; further pictures go to the last one. */
static void give_inputs(const mgpu_program *p, Operands *list, const bool *wanted)
{
    bool *named = mgpu_allocate((size_t)p->input_count, sizeof *named);
    int next = 0, last = -1, left = 0;
    for (int i = 0; i < list->count; i++)
        if (list->list[i].input >= 0)
            named[list->list[i].input] = true;
    for (int i = 0; i < p->input_count; i++)
        left += wanted[i] && !named[i];
    for (int i = 0; i < list->count; i++) {
        PredictOperand *one = &list->list[i];
        if (one->input >= 0)
            continue;
        bool more = left == 1 && last >= 0 && one->kind == KIND_PICTURES && list->list[last].kind == KIND_PICTURES;
        while (!more && next < p->input_count && (!wanted[next] || named[next]))
            next++;
        if (!more && next == p->input_count)
            mgpu_fail(MGPU_BAD_USAGE, "%s: the outputs depend on no further input", one->path);
        one->input = more ? list->list[last].input : next++;
        last = i;
    }
    free(named);
}

static void check_all(const mgpu_program *p, const Operands *list, const bool *wanted, const RunOptions *o)
{
    for (int i = 0; i < p->input_count; i++) {
        int files = 0, pictures = 0;
        for (int k = 0; k < list->count; k++) {
            files += list->list[k].input == i;
            pictures += list->list[k].input == i && list->list[k].kind == KIND_PICTURES;
        }
        if (files > 1 && pictures < files)
            mgpu_fail(MGPU_BAD_USAGE, "there are two files for the input '%s'; several may be pictures only",
                      p->inputs[i].tensor.name);
        if (wanted[i] && !files)
            mgpu_fail(MGPU_BAD_USAGE, "there is no file for the input '%s'; usage: %s predict %s -o OUT",
                      p->inputs[i].tensor.name, o->program, set_of_tables(p) ? "TABLE.csv" : "IN ...");
    }
}

/* ---- arrays and pictures */
/* Makes one sample of an array whose first axis is the input's and not that of samples. */
static void join_sample(Array *a, const mgpu_input *in)
{
    int64_t extent[MGPU_MAX_RANK];
    if (mgpu_shapes_agree(in, a->rank, a->extent) || a->rank == MGPU_MAX_RANK)
        return;
    extent[0] = a->samples;
    memcpy(extent + 1, a->extent, (size_t)a->rank * sizeof *extent);
    if (!mgpu_shapes_agree(in, a->rank + 1, extent))
        return;
    memcpy(a->extent, extent, sizeof extent);
    a->rank++;
    a->sample_bytes *= a->samples;
    a->samples = 1;
}

static void read_input(Stream *s, int column, const mgpu_program *p, int input, const Operands *list)
{
    const mgpu_input *in = &p->inputs[input];
    const char **paths = mgpu_allocate((size_t)list->count, sizeof *paths);
    int count = 0;
    FileKind kind = KIND_IDX;
    char **names = NULL;
    Array a;
    for (int i = 0; i < list->count; i++) {
        const PredictOperand *one = &list->list[i];
        if (one->input != input)
            continue;
        kind = one->kind;
        paths[count++] = one->path;
    }
    if (kind == KIND_PICTURES) {
        names = mgpu_read_pictures(&a, p, in, paths, count);
    } else {
        if (kind == KIND_NPY)
            mgpu_read_npy(&a, paths[0], "", false, false, in->tensor.name);
        else
            mgpu_read_idx(&a, paths[0], "", false);
        join_sample(&a, in);
    }
    mgpu_set_array(s, column, in->tensor.name, in, &a, paths[0], "");
    if (names)
        mgpu_set_names(s, names);
    free(paths);
}

static void open_files(Dataset *d, const mgpu_program *p, const Operands *list, const bool *wanted)
{
    int columns = 0;
    for (int i = 0; i < p->input_count; i++)
        columns += wanted[i];
    *d = (Dataset){.name = "predict", .program = p};
    Opening opening = {.program = p, .where = ""};
    d->stream = mgpu_array_stream(&opening, columns);
    for (int i = 0, c = 0; i < p->input_count; i++)
        if (wanted[i])
            read_input(d->stream, c++, p, i, list);
    mgpu_bind_set(d, wanted, NULL);
}

/* ---- a table */
/* Makes a reader with the options of the set's table, but another file; without a set, columns are named like the inputs. */
static mgpu_call reader_of(const mgpu_set *set, const char *path)
{
    mgpu_option *options = mgpu_allocate(set ? (size_t)set->calls[0].option_count + 2 : 2, sizeof *options);
    mgpu_item *file = mgpu_allocate(2, sizeof *file);
    int count = 0;
    file[0].text = path;
    options[count++] = (mgpu_option){"file", file, 1};
    for (int i = 0; set && i < set->calls[0].option_count; i++)
        if (strcmp(set->calls[0].options[i].name, "file") != 0)
            options[count++] = set->calls[0].options[i];
    if (!set && ends_in(path, (const char *const[]){".tsv"}, 1)) {
        file[1].text = "\t";
        options[count++] = (mgpu_option){"delimiter", file + 1, 1};
    }
    return (mgpu_call){.name = "csv", .options = options, .option_count = count};
}

static void open_table(Dataset *d, const mgpu_program *p, const char *path, Inflow *inflow, const bool *wanted,
                       const RunOptions *o, Categories *categories)
{
    const mgpu_set *from = set_of_tables(p);
    mgpu_call *calls = mgpu_allocate(from ? (size_t)from->call_count : 1, sizeof *calls);
    mgpu_column *columns = mgpu_allocate((size_t)p->input_count, sizeof *columns);
    mgpu_set set = {.name = "predict",
                    .columns = from ? from->columns : columns,
                    .column_count = from ? from->column_count : p->input_count,
                    .calls = calls};
    calls[set.call_count++] = reader_of(from, path);
    for (int i = 1; from && i < from->call_count; i++)
        if (!is_left_out(&from->calls[i]))
            calls[set.call_count++] = from->calls[i];
    for (int i = 0; !from && i < p->input_count; i++)
        columns[i] = (mgpu_column){.name = p->inputs[i].tensor.name, .input = i, .texts = &p->inputs[i].tensor.name, .count = 1};
    mgpu_open_new_table(d, p, &set, wanted, o->data, inflow, categories);
    free((void *)(uintptr_t)calls[0].options[0].items);
    free((void *)(uintptr_t)calls[0].options);
    free(columns);
    free(calls);
}

/* ---- */
Samples *mgpu_find_samples(const mgpu_program *p, const RunOptions *o, const bool *wanted, bool by_rows)
{
    Samples *s = mgpu_allocate(1, sizeof *s);
    const char *any = NULL; /* some input that an output depends on */
    for (int i = p->input_count; i-- > 0;)
        any = wanted[i] ? p->inputs[i].tensor.name : any;
    if (!any && o->samples < 0)
        mgpu_fail(MGPU_BAD_USAGE, "the outputs depend on no input: %s predict --samples N -o OUT says how many there shall be",
                  o->program);
    if (any && o->samples >= 0)
        mgpu_fail(
            MGPU_BAD_USAGE,
            "--samples is for a model whose outputs all depend on no input; this one has outputs of '%s', whose file says how many "
            "samples there are; a param that leaves these out (if ... { output ... }) makes a program without them: docs/recipes.md, "
            "A variational autoencoder",
            any);
    if (!any && o->operand_count)
        mgpu_fail(MGPU_BAD_USAGE, "%s: the outputs depend on no further input", o->operands[0]);
    s->set = o->operand_count == 1 ? mgpu_find_set(p, o->operands[0]) : NULL;
    if (s->set || !any)
        return s;
    Operands *list = &s->operands;
    list->list = mgpu_allocate((size_t)o->operand_count, sizeof *list->list);
    for (int i = 0; i < o->operand_count; i++) {
        PredictOperand one = operand_of(p, o, o->operands[i], wanted, by_rows, s);
        if (one.kind == KIND_TABLE && (o->operand_count > 1 || one.input >= 0))
            mgpu_fail(MGPU_BAD_USAGE, "%s is a table, which has columns for all inputs: %s predict %s -o OUT", one.path,
                      o->program, one.path == STDIN ? "-" : one.path);
        s->table = one.kind == KIND_TABLE ? one.path : NULL;
        list->list[list->count++] = one;
    }
    if (!s->table) {
        give_inputs(p, list, wanted);
        check_all(p, list, wanted, o);
    }
    return s;
}

bool mgpu_open_samples(Dataset *d, Samples *s, const mgpu_program *p, const RunOptions *o, const bool *wanted,
                       Categories *categories)
{
    bool any = s->set || s->operands.count || o->samples < 0;
    if (s->set)
        mgpu_open_set(d, p, s->set, wanted, o->data, categories);
    else if (s->table)
        open_table(d, p, s->table, s->inflow, wanted, o, categories);
    else if (any)
        open_files(d, p, &s->operands, wanted);
    free(s->operands.list);
    free(s);
    return any;
}
