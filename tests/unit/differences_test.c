/* differences_test.c: what mgpu_compare_tensors says of two tensors: elements that differ, the largest difference, units in the last
 * place (of floats as many as nextafter takes steps), and places in tensors that are read in several pieces. */
#include "runtime/base/base.h"
#include "runtime/weights/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void expect(const char *name, int differ, int wanted_differ, const char *said, const char *wanted)
{
    bool good = differ == wanted_differ && strcmp(said, wanted) == 0;
    printf(good ? "ok %s\n" : "not ok %s: %d differ; said: %s\n", name, differ, said);
    failures += !good;
}

static TensorFile file_of(SavedTensor *tensor, const char *path)
{
    return (TensorFile){.path = path, .tensors = tensor, .count = 1};
}

static void compare(const char *name, mgpu_tensor shape, const void *a, const void *b, const char *wanted)
{
    char *said;
    size_t length;
    shape.name = "w";
    SavedTensor x = {.tensor = shape, .data = a}, y = {.tensor = shape, .data = b};
    TensorFile of_a = file_of(&x, "a"), of_b = file_of(&y, "b");
    FILE *f = mgpu_begin_text(&said, &length);
    int differ = mgpu_compare_tensors(&of_a, &of_b, "f", f);
    mgpu_end_text(f);
    expect(name, differ, *wanted != 0, said, wanted);
    free(said);
}

/* Two values, of which only the second differs. */
static void values(const char *name, uint8_t dtype, double a, double b, const char *wanted)
{
    double x[2], y[2];
    mgpu_from_double(x, dtype, 0, 1);
    mgpu_from_double(y, dtype, 0, 1);
    mgpu_from_double(x, dtype, 1, a);
    mgpu_from_double(y, dtype, 1, b);
    compare(name, (mgpu_tensor){.dtype = dtype, .rank = 1, .extent = {2}}, x, y, wanted);
}

static void steps_of_floats(void)
{
    float a = 1.5F;
    for (int i = 0; i < 5; i++)
        a = nextafterf(a, 2);
    values(
        "five steps of f32", MGPU_F32, 1.5, (double)a,
        "  f, w, f32[2]: 1 of 2 elements differs, at most by 5.96046e-07 at [1] (1.5 and 1.5000006), at most by 5 units in the last place\n");
    values(
        "one step of f64", MGPU_F64, -1, nextafter(-1, 0),
        "  f, w, f64[2]: 1 of 2 elements differs, at most by 1.11022e-16 at [1] (-1 and -0.99999999999999989), at most by 1 unit in the last place\n");
    values(
        "across zero, f32", MGPU_F32, (double)nextafterf(0, 1), (double)-nextafterf(nextafterf(0, 1), 1),
        "  f, w, f32[2]: 1 of 2 elements differs, at most by 4.2039e-45 at [1] (1.40129846e-45 and -2.80259693e-45), at most by 3 units in the last place\n");
    values(
        "across zero, f64, as far as it goes", MGPU_F64, 0x1.fffffffffffffp+1023, -0x1.fffffffffffffp+1023,
        "  f, w, f64[2]: 1 of 2 elements differs, at most by inf at [1] (1.79769313e+308 and -1.79769313e+308), at most by 18437736874454810622 units in the last place\n");
    values(
        "bf16", MGPU_BF16, 1, 1.015625,
        "  f, w, bf16[2]: 1 of 2 elements differs, at most by 0.015625 at [1] (1 and 1.015625), at most by 2 units in the last place\n");
    values(
        "f16", MGPU_F16, -2, -2.001953125,
        "  f, w, f16[2]: 1 of 2 elements differs, at most by 0.00195312 at [1] (-2 and -2.00195312), at most by 1 unit in the last place\n");
}

static void others(void)
{
    values("whole numbers", MGPU_I32, 7, -3, "  f, w, i32[2]: 1 of 2 elements differs, at most by 10 at [1] (7 and -3)\n");
    values("equal", MGPU_F32, 3, 3, "");
    values("infinite", MGPU_F32, 3, INFINITY,
           "  f, w, f32[2]: 1 of 2 elements differs; 1 of them is not finite in one of the two\n");
    const float nan_and_more[2][3] = {{NAN, 1, 2}, {0, 1.25F, 2}};
    compare(
        "one that is not finite, then one that is", (mgpu_tensor){.dtype = MGPU_F32, .rank = 1, .extent = {3}}, nan_and_more[0],
        nan_and_more[1],
        "  f, w, f32[3]: 2 of 3 elements differ, at most by 0.25 at [1] (1 and 1.25), at most by 2097152 units in the last place; 1 of them is not finite in one of the two\n");
    const double scalar[2] = {1, 3};
    compare(
        "a scalar", (mgpu_tensor){.dtype = MGPU_F64}, &scalar[0], &scalar[1],
        "  f, w, f64[]: 1 of 1 element differs, at most by 2 (1 and 3), at most by 6755399441055744 units in the last place\n");
}

static void long_tensor(void)
{
    enum { ROWS = 200, COLUMNS = 300 }; /* several pieces */
    float *a = mgpu_allocate((size_t)ROWS * COLUMNS, sizeof *a), *b = mgpu_allocate((size_t)ROWS * COLUMNS, sizeof *b);
    b[0] = 0.5F;
    b[150 * COLUMNS + 7] = -4;
    b[ROWS * COLUMNS - 1] = 2;
    compare(
        "in several pieces", (mgpu_tensor){.dtype = MGPU_F32, .rank = 2, .extent = {ROWS, COLUMNS}}, a, b,
        "  f, w, f32[200, 300]: 3 of 60,000 elements differ, at most by 4 at [150, 7] (0 and -4), at most by 1082130432 units in the last place\n");
    free(a);
    free(b);
}

int main(void)
{
    steps_of_floats();
    others();
    long_tensor();
    return failures != 0;
}
