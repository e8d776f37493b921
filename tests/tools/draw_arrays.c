/* draw_arrays.c: a model's text with random data of its own.
 *
 *     PROGRAM info | draw_arrays MODEL.net TRAIN [VALID] >NEW.net
 *
 * `info` says the inputs of the program that was made of the model. Writes NAME.npy for each of them, TRAIN samples (and
 * valid_NAME.npy), into the current folder; prints the model with a data block of these files in place of its own. Numbers are
 * in [0, 1), classes below their count; all follow from the places alone. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 32, MOST_RANK = 8, LINE = 4096 };
typedef struct Input {
    char name[128], type[16];
    int64_t extent[MOST_RANK], classes;
    int rank;
} Input;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "draw_arrays: %s\n", what);
    exit(3);
}

/* ---- inputs: "  image: u8[28, 28], one of 10 classes" */

static bool read_input(const char *line, Input *in)
{
    *in = (Input){0};
    if (sscanf(line, "  %127[^:]: %15[a-z0-9]", in->name, in->type) != 2)
        return false;
    char *at = strchr(line, '[');
    const char *classes = strstr(line, "one of ");
    for (; at && *at != ']'; in->rank++) {
        if (in->rank == MOST_RANK)
            fail("an input of too many axes");
        in->extent[in->rank] = strtoll(at + 1, &at, 10);
    }
    for (const char *digit = classes ? classes + 7 : ""; (*digit >= '0' && *digit <= '9') || *digit == ','; digit++)
        if (*digit != ',')
            in->classes = 10 * in->classes + (*digit - '0');
    return true;
}

static int read_inputs(Input *list)
{
    char line[LINE];
    int count = 0;
    bool inside = false;
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "inputs\n") == 0)
            inside = true;
        else if (inside && !read_input(line, &list[count]))
            break;
        else if (inside && ++count > MOST_INPUTS)
            fail("a model of too many inputs");
    }
    return count;
}

/* ---- arrays */

static uint64_t next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void write_array(const Input *in, const char *prefix, int64_t samples, uint64_t seed)
{
    char path[160], shape[256] = "", head[320];
    int64_t count = samples;
    snprintf(path, sizeof path, "%s%s.npy", prefix, in->name);
    for (int i = 0; i < in->rank; i++) {
        count *= in->extent[i];
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%lld, ", (long long)in->extent[i]);
    }
    bool real = in->type[0] == 'f' || in->type[0] == 'b', truth = strcmp(in->type, "bool") == 0;
    int bytes = truth ? 1 : 8;
    const char *type = truth ? "|b1" : real ? "<f8" : "<i8";
    int length = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%lld, %s), }", type,
                          (long long)samples, shape);
    while ((length + 11) % 64)
        head[length++] = ' ';
    head[length++] = '\n';
    FILE *f = fopen(path, "wb");
    if (!f || fwrite("\x93NUMPY\1", 1, 8, f) != 8)
        fail(path);
    fputc(length & 255, f);
    fputc(length >> 8, f);
    fwrite(head, 1, (size_t)length, f);
    for (int64_t i = 0; i < count; i++) {
        uint64_t bits = next(&seed);
        double number = (double)(bits >> 40) / (1 << 24);
        int64_t whole = (int64_t)(bits >> 20) % (in->classes                   ? in->classes
                                                 : strcmp(in->type, "u8") == 0 ? 256
                                                 : strcmp(in->type, "i8") == 0 ? 128
                                                                               : 1000);
        if (truth)
            fputc((int)(bits >> 63), f);
        else
            fwrite(real ? (void *)&number : (void *)&whole, 1, (size_t)bytes, f);
    }
    if (fclose(f) != 0)
        fail(path);
}

/* ---- the model */

/* without its data block, which begins at the beginning of a line and ends there or on the same line */
static void print_model(const char *path)
{
    char line[LINE];
    FILE *f = fopen(path, "r");
    bool inside = false;
    if (!f)
        fail(path);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "data {", 6) == 0)
            inside = !strchr(line, '}');
        else if (!inside)
            fputs(line, stdout);
        else if (line[0] == '}')
            inside = false;
    }
    fclose(f);
}

static void print_set(const char *set, const char *prefix, const Input *list, int count)
{
    printf("    %s = npy(", set);
    for (int i = 0; i < count; i++)
        printf("%s%s = \"%s%s.npy\"", i ? ", " : "", list[i].name, prefix, list[i].name);
    puts(")");
}

int main(int argc, char **argv)
{
    static Input list[MOST_INPUTS + 1];
    int64_t train = argc > 2 ? atoll(argv[2]) : 0, valid = argc > 3 ? atoll(argv[3]) : 0;
    if (train < 1) {
        fprintf(stderr, "usage: PROGRAM info | draw_arrays MODEL.net TRAIN [VALID] >NEW.net\n");
        return 2;
    }
    int count = read_inputs(list);
    if (!count)
        fail("no inputs were read");
    print_model(argv[1]);
    puts("data {");
    print_set("train", "", list, count);
    if (valid)
        print_set("valid", "valid_", list, count);
    puts("}");
    for (int i = 0; i < count; i++) {
        write_array(&list[i], "", train, 1 + (uint64_t)i);
        if (valid)
            write_array(&list[i], "valid_", valid, 1000 + (uint64_t)i);
    }
    return 0;
}
