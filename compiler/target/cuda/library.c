/* library.c: for which matmuls a GPU library may be used in place of the kernel, and how.
 *
 * In: a CudaMatmul. Out: mgpu_library_matmul (mgpu.h), if each of batch, M, N and K is one axis, and every matrix is stored as
 * the library requires: column-major with contiguous columns, perhaps transposed. The rows of its result are those of C's lists,
 * M or N, whose elements are contiguous. */
#include "compiler/base/c_text.h"
#include "compiler/target/cuda/library.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE_WORKSPACE = 32 << 20, WORKSPACE = 4 << 20 };
enum { ROWS, COLUMNS, DEPTH, BATCH }; /* as in mgpu_library_matmul */

int64_t cuda_library_workspace(const char *archs)
{
    for (const char *at = archs; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, "sm_", 3) == 0 && atoi(at + 3) >= 90)
            return LARGE_WORKSPACE;
    return WORKSPACE;
}

/* Joins all axes of a list; false: they are not contiguous. Samples are the outermost axis. */
static bool fold(const mgpu_contraction *t, int list, mgpu_axis *to, bool *sampled)
{
    const mgpu_axis *axis = t->axis + mgpu_list_first(t, list);
    int count = mgpu_list_count(t, list);
    *to = (mgpu_axis){.extent = 1};
    *sampled = count > 0 && axis[0].extent == MGPU_SAMPLES;
    if (count > 1 + *sampled ||
        (count == 2 && (axis[0].a != axis[1].a * axis[1].extent || axis[0].b != axis[1].b * axis[1].extent ||
                        axis[0].c != axis[1].c * axis[1].extent)))
        return false;
    if (count > 0)
        *to = axis[count - 1];
    if (to->extent == MGPU_SAMPLES)
        to->extent = 1;
    return to->window == 0 && to->extent > 0;
}

/* Describes a matrix for the library, by its strides of rows and columns; an axis of extent 1 may have any stride. */
static bool place(mgpu_library_matrix *m, const mgpu_axis *row, bool rows_sampled, int64_t row_stride, const mgpu_axis *column,
                  bool columns_sampled, int64_t column_stride)
{
    bool one_row = row->extent == 1 && !rows_sampled, one_column = column->extent == 1 && !columns_sampled;
    m->transposed = !(one_row || row_stride == 1) || (one_row && !one_column && column_stride == 1);
    int64_t side = m->transposed ? column->extent : row->extent, beside = m->transposed ? column_stride : row_stride;
    bool one_side = m->transposed ? one_column : one_row, one_other = m->transposed ? one_row : one_column;
    m->pitch = one_other ? 0 : m->transposed ? row_stride : column_stride;
    if (!one_side && beside != 1)
        return false;
    return m->pitch == 0 || (m->pitch >= side && !(m->transposed ? columns_sampled : rows_sampled));
}

static bool takes_types(const mgpu_contraction *t, const mgpu_tiles *s)
{
    bool half = s->type_a == MGPU_BF16 || s->type_a == MGPU_F16;
    return s->type_a == s->type_b && (s->type_c == s->type_a || (half && s->type_c == MGPU_F32)) &&
           t->type == (s->type_a == MGPU_F64 ? MGPU_F64 : MGPU_F32);
}

bool cuda_library_matmul(const CudaMatmul *p, bool swapped, mgpu_library_matmul *to)
{
    const mgpu_contraction *t = &p->table;
    const mgpu_tiles *s = &p->tiles;
    mgpu_axis list[4];
    bool sampled[4];
    if (p->next || t->windows > 0 || s->arithmetic == MGPU_DIRECT || !takes_types(t, s))
        return false;
    for (int i = 0; i < 4; i++)
        if (!fold(t, i, &list[i], &sampled[i]))
            return false;
    int r = list[MGPU_LIST_N].c == 1 || (list[MGPU_LIST_N].extent == 1 && !sampled[MGPU_LIST_N] && list[MGPU_LIST_M].c != 1)
                ? MGPU_LIST_N
                : MGPU_LIST_M;
    int c = r == MGPU_LIST_N ? MGPU_LIST_M : MGPU_LIST_N;
    const mgpu_axis *rows = &list[r], *columns = &list[c], *depth = &list[MGPU_LIST_K], *batch = &list[MGPU_LIST_BATCH];
    bool by_b = r == MGPU_LIST_N; /* the library's first operand is B */
    *to = (mgpu_library_matmul){
        .extent = {rows->extent, columns->extent, depth->extent, batch->extent}, .sampled = -1, .sums = t->type};
    for (int i = 0; i < 4; i++)
        if (sampled[i])
            to->sampled = i == r ? ROWS : i == c ? COLUMNS : i == MGPU_LIST_K ? DEPTH : BATCH;
    to->a = (mgpu_library_matrix){
        .argument = by_b != swapped, .type = s->type_a, .first = by_b ? t->b : t->a, .batch_stride = by_b ? batch->b : batch->a};
    to->b = (mgpu_library_matrix){
        .argument = by_b == swapped, .type = s->type_a, .first = by_b ? t->a : t->b, .batch_stride = by_b ? batch->a : batch->b};
    to->d = (mgpu_library_matrix){.argument = 2, .type = s->type_c, .first = s->c, .batch_stride = batch->c};
    return place(&to->a, rows, sampled[r], by_b ? rows->b : rows->a, depth, sampled[MGPU_LIST_K], by_b ? depth->b : depth->a) &&
           place(&to->b, depth, sampled[MGPU_LIST_K], by_b ? depth->a : depth->b, columns, sampled[c],
                 by_b ? columns->a : columns->b) &&
           place(&to->d, rows, sampled[r], rows->c, columns, sampled[c], columns->c) && !to->d.transposed;
}

static const char *matrix_row(const mgpu_library_matrix *m)
{
    return C_ROW({"argument", m->argument, m->argument ? NULL : "0"}, C_NUMBER("type", m->type),
                 C_TEXT("transposed", c_true(m->transposed)), C_NUMBER("first", m->first), C_NUMBER("pitch", m->pitch),
                 C_NUMBER("batch_stride", m->batch_stride));
}

void cuda_print_library_matmul(const mgpu_library_matmul *p, Text *t)
{
    const char *extents = format("{%lld, %lld, %lld, %lld}", (long long)p->extent[ROWS], (long long)p->extent[COLUMNS],
                                 (long long)p->extent[DEPTH], (long long)p->extent[BATCH]);
    text_add(t, ", .matmul = &(const mgpu_library_matmul)%s",
             C_ROW(C_TEXT("a", matrix_row(&p->a)), C_TEXT("b", matrix_row(&p->b)), C_TEXT("d", matrix_row(&p->d)),
                   C_TEXT("extent", extents), C_NUMBER("sampled", p->sampled), C_NUMBER("sums", p->sums),
                   C_TEXT("tf32", c_true(p->tf32))));
}
