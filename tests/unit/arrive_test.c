/* Rows that arrive: a table through a pipe, in pieces of every size, gives the samples that the file gives, or those before the
 * row of which it says what is wrong; words of rows that are past are forgotten. */
#include "runtime/base/base.h"
#include "runtime/run/sets.h"
#include "tests/unit/data_program.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const TABLES = "{\"label\":[\"a\",\"b c\",\"d\\ne\",\"\\\"\"],\"code\":[\"other\",\"w1\"]}";
static int failed;

typedef struct Writer {
    const char *text;
    size_t length, piece;
    int to;
} Writer;

static void *write_pieces(void *argument)
{
    const Writer *w = argument;
    for (size_t at = 0; at < w->length; at += w->piece) {
        size_t piece = w->length - at < w->piece ? w->length - at : w->piece;
        if (write(w->to, w->text + at, piece) != (ssize_t)piece)
            mgpu_fail(3, "a pipe cannot be written");
        usleep(w->length < 1000 ? 20 : 0);
    }
    close(w->to);
    return NULL;
}

static void add_values(FILE *f, const Dataset *d, int64_t from, int64_t count)
{
    char name[40];
    for (int64_t s = from; s < from + count; s++) {
        mgpu_name_sample(d->stream, s, name, sizeof name);
        fprintf(f, "%s:", name);
        for (int i = 0; i < d->program->input_count; i++) {
            const mgpu_tensor *t = &d->program->inputs[i].tensor;
            uint8_t value[64] = {0}, *to[8] = {NULL};
            to[i] = value;
            mgpu_read_samples(d, to, &s, 1, 0, 0);
            for (int64_t k = 0; k < mgpu_elements(t); k++)
                fprintf(f, " %.9g", mgpu_to_double(value, t->dtype, k));
        }
        fputc('\n', f);
    }
}

/* a number, a missing one, classes by words */
static const mgpu_program *program(const char *options)
{
    return program_of("input x: f32[2]  input label: class(4)  input code: class(3, other = 0)",
                      format("train = csv(\"t.csv\", x = [\"u\", \"v\"]%s)", options));
}

/* -> as a text the samples, then the complaint. most: of a batch; inflow NULL: the file at path */
static char *read_table(const mgpu_program *p, Inflow *inflow, const char *path, int64_t most)
{
    char *text, *complaint = NULL;
    size_t length;
    bool wanted[] = {true, true, true};
    mgpu_set set = p->sets[0];
    mgpu_call call = set.calls[0];
    mgpu_option options[8], *file = options;
    mgpu_item item = {.text = path};
    memcpy(options, call.options, (size_t)call.option_count * sizeof *options);
    while (strcmp(file->name, "file") != 0)
        file++;
    file->items = &item;
    call.options = options;
    set.calls = &call;
    Categories *categories = mgpu_new_categories(true);
    mgpu_read_categories(categories, TABLES, "w.safetensors");
    FILE *f = mgpu_begin_text(&text, &length);
    Dataset d;
    mgpu_open_new_table(&d, p, &set, wanted, NULL, inflow, categories);
    if (!inflow)
        add_values(f, &d, 0, d.samples);
    for (int64_t first = 0, count; inflow && !complaint && (count = mgpu_next_samples(&d, most, categories, &complaint));
         first += count)
        add_values(f, &d, first, count);
    fprintf(f, "%s", complaint ? complaint : "");
    free(complaint);
    mgpu_end_text(f);
    mgpu_close_set(&d);
    mgpu_free_categories(categories);
    return text;
}

static char *read_pieces(const mgpu_program *p, const char *content, size_t piece, int64_t most, bool block)
{
    int ends[2];
    if (pipe(ends) != 0)
        mgpu_fail(3, "there is no pipe");
    if (!block)
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
    Writer w = {content, strlen(content), piece, ends[1]};
    pthread_t thread;
    mgpu_start_thread(&thread, write_pieces, &w);
    Inflow *in = mgpu_open_inflow(ends[0]);
    char *text = read_table(p, in, "-", most);
    pthread_join(thread, NULL);
    close(ends[0]);
    return text;
}

static void check(const char *name, const char *options, const char *content, const char *expected)
{
    const mgpu_program *p = program(options);
    bool good = true;
    for (size_t piece = 1; piece <= 4096 && good; piece = piece < 3 ? piece + 1 : 3 * piece) {
        char *text = read_pieces(p, content, piece, (int64_t)(piece % 3) + 1, piece % 2);
        good = strcmp(text, expected) == 0;
        if (!good)
            printf("# in pieces of %zu: %s# in place of: %s\n", piece, text, expected);
        free(text);
    }
    printf(good ? "ok arrive/%s\n" : "not ok arrive/%s: see its case\n", name);
    failed += !good;
}

static void check_as_file(const char *name, const char *options, const char *path, const char *content)
{
    FILE *f = fopen(path, "wb");
    if (!f || fputs(content, f) < 0 || fclose(f) != 0)
        mgpu_fail(3, "%s cannot be written", path);
    check(name, options, content, read_table(program(options), NULL, path, 0));
}

/* fields of all kinds, by a generator of its own; with words that are never seen again */
static char *draw_table(int rows)
{
    static const char *const NUMBERS[] = {"1", " 2.5 ", "-3e2", "", "\"4\"", "nan"}, *const LABELS[] = {"a", "\"b c\"",
                                                                                                        "\"d\ne\"", "\"\"\"\"",
                                                                                                        "b c"};
    static const char *const ENDS[] = {"\n", "\r\n", "\n\n", "\n \r\n"};
    char *text;
    size_t length;
    uint32_t state = 1;
    FILE *f = mgpu_begin_text(&text, &length);
    fprintf(f, "\xEF\xBB\xBFv,note,\"label\",u,code\r\n");
    for (int i = 0; i < rows; i++) {
        uint32_t d[4];
        for (int k = 0; k < 4; k++)
            d[k] = (state = state * 1664525 + 1013904223) >> 16;
        fprintf(f, "%s,\"n,%d\",%s,%s,w%d%s", NUMBERS[d[0] % 6], i, LABELS[d[1] % 5], NUMBERS[d[2] % 6], i,
                i + 1 < rows ? ENDS[d[3] % 4] : "");
    }
    mgpu_end_text(f);
    return text;
}

static size_t in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}

/* words of which each comes once: memory does not grow with them */
static void check_memory(void)
{
    enum { ROWS = 200000, WARM = 2000 };
    char *content;
    size_t length, begun = 0, ended = 0;
    FILE *f = mgpu_begin_text(&content, &length);
    fprintf(f, "u,v,label,code\n");
    for (int i = 0; i < ROWS; i++)
        fprintf(f, "1,2,a,word%d\n", i);
    mgpu_end_text(f);
    int ends[2];
    if (pipe(ends) != 0)
        mgpu_fail(3, "there is no pipe");
    Writer w = {content, length, 4096, ends[1]};
    pthread_t thread;
    mgpu_start_thread(&thread, write_pieces, &w);
    bool wanted[] = {true, true, true};
    Categories *categories = mgpu_new_categories(true);
    mgpu_read_categories(categories, TABLES, "w.safetensors");
    const mgpu_program *p = program("");
    char *complaint = NULL;
    Inflow *in = mgpu_open_inflow(ends[0]);
    Dataset d;
    mgpu_open_new_table(&d, p, &p->sets[0], wanted, NULL, in, categories);
    while (mgpu_next_samples(&d, 100, categories, &complaint)) {
        ended = in_use();
        begun = !begun && d.samples >= WARM ? ended : begun;
    }
    bool good = !complaint && d.samples == ROWS && ended < begun + 100000;
    if (!good)
        printf("# %lld samples, %zu bytes, then %zu\n", (long long)d.samples, begun, ended);
    if (good && !ended) /* a sanitizer's allocator counts elsewhere */
        puts("skip arrive/memory: mallinfo2 says nothing");
    else
        printf(good ? "ok arrive/memory\n" : "not ok arrive/memory: see its case\n");
    failed += !good;
    mgpu_close_set(&d);
    mgpu_free_categories(categories);
    pthread_join(thread, NULL);
    free(content);
}

int main(void)
{
    char path[] = "/tmp/mgpu-arrive-XXXXXX";
    close(mkstemp(path));
    check_as_file("line-ends", "", path,
                  "u,v,label,code\r\n1,2,a,w1\r\n\r\n3,4,\"b c\",\"no\"\n\n  \n5,6,\"d\ne\",\r\n7,8,\"\"\"\",x");
    check_as_file("other-columns", ", missing = [\"?\"], strip = \" .\"", path,
                  "code,v,z,label,u\nw1,?,z, a .,1\nw1,2,\"z\"\"\n\",a,?\n");
    check_as_file("bare", ", names = [\"u\", \"v\", \"label\", \"code\"]", path, "1,2,a,w1\n3,4,a,w1\n");
    check_as_file("delimiter", ", delimiter = \"\\t\"", path, "u\tv\tlabel\tcode\n1\t2\ta\tw1\n \n3\t4\tb c\t,\n");
    check_as_file("skipped", ", on_bad = \"skip\"", path, "u,v,label,code\n1,2,a,w1\n1,2\none,2,a,w1\n1,2,\"a\"x,w1\n5,6,a,w1\n");
    check_as_file("drawn", "", path, draw_table(300));
    const char *begin = "u,v,label,code\n1,2,a,w1\n3,4,a,x\n\n", *one = "1: 1 2 0 1\n2: 3 4 0 0\n";
    static const struct {
        const char *name, *row, *complaint;
    } BAD[] = {
        {"number", "5,six,a,w1\n7,8,a,w1\n",
         "standard input:5: column 'v' is 'six', a number is expected; on_bad = \"skip\" leaves such lines out"},
        {"fields", "5,6,a\n7,8,a,w1\n", "standard input:5: 3 fields, 4 expected; on_bad = \"skip\" leaves such lines out"},
        {"word", "5,6,z,w1\n7,x\n",
         "standard input:5: column 'label' is 'z', which is no category that training knew; class(5, other = 0) for input "
         "'label' has a class for such"},
        {"quote", "5,6,\"z,w1\n7,x\n", "standard input:5: the quote that opens here is never closed"},
        {"after-quote", "5,6,\"a\"z,w1\n7,x\n",
         "standard input:5: field 3: text follows the closing quote; a quote within quotes is doubled; on_bad = \"skip\" leaves "
         "such lines out"},
        {"no-value", "5,6,,w1\n",
         "standard input:5: column 'label' has no value; class(5, other = 0) for input 'label' has a class for such"},
    };
    for (int i = 0; i < MGPU_COUNT(BAD); i++)
        check(format("bad-%s", BAD[i].name), "", format("%s%s", begin, BAD[i].row), format("%s%s", one, BAD[i].complaint));
    check_memory();
    unlink(path);
    return failed != 0;
}
