/* contract.c: EINSUM, CONVOLVE and CONVOLVE_WEIGHT as CUDA C.
 *
 * In: a Contraction (kernel/contraction.c). Out: its matmul's tables, and functions that pass them to mgpu_device_contract.h:
 * k12, and k12_finish with split-K. */
#include "compiler/base/c_text.h"
#include "compiler/kernel/contraction_internal.h"
#include "compiler/kernel/identity.h"
#include "compiler/kernel/kernel.h"
#include "compiler/kernel/phase.h"
#include "compiler/target/cuda/library.h"

static uint8_t type_of(const Tensor *tensor)
{
    static const uint8_t TYPE[DTYPES] = {[F16] = MGPU_F16, [BF16] = MGPU_BF16, [F32] = MGPU_F32, [F64] = MGPU_F64};
    return TYPE[tensor->dtype];
}

static const char *type_text(const Tensor *tensor)
{
    static const char *const TYPE[DTYPES] = {[F16] = "mgpu_f16", [BF16] = "mgpu_bf16", [F32] = "float", [F64] = "double"};
    return TYPE[tensor->dtype];
}

/* Exact programs use no library, whose order of additions is not ours. */
bool cuda_is_exact(const Contraction *plan) { return plan->node->graph->model->exact > 0; }

/* block: alignment is unknown, because operands begin at any step of a sequence */
static CudaMatmul *matmul_for(const Contraction *plan, int64_t samples, bool block)
{
    int first = plan->swapped ? B : A, second = B - first;
    const Tensor *const tensor[] = {plan->tensor[first], plan->tensor[second], plan->tensor[C]};
    CudaOptions options = {.samples = samples,
                           .block = block,
                           .tf32 = plan->node->graph->model->tf32,
                           .exact = cuda_is_exact(plan),
                           .place = plan->tiles};
    for (int i = 0; i < 3; i++) {
        options.type[i] = type_of(tensor[i]);
        options.aligned[i] =
            tensor_is_aligned(tensor[i]) && (!block || shape_count(&tensor[i]->shape) * dtype_bytes(tensor[i]->dtype) % 16 == 0);
    }
    return cuda_matmul(&plan->table, &options);
}

static CudaMatmul *matmul_of(const Contraction *plan, bool block) { return matmul_for(plan, contraction_samples(plan), block); }

static const char *tiles_text(const mgpu_tiles *s)
{
    static const char *const by[] = {"multiplications", "matrix instructions"};
    if (s->arithmetic == MGPU_DIRECT)
        return ", each element by a thread";
    return format(", tiles of %d x %d by %s%s", s->rows, s->columns, by[s->arithmetic == MGPU_MMA],
                  s->split_tiles > 0 ? ", split-K" : "");
}

/* ---- text */

/* Returns true if both operands are copied to shared memory asynchronously. Then nothing is loaded for which the compiler could
 * use ld.global.nc (mgpu_device.h), and what is written may be restrict, which saves instructions. */
static bool copies(const CudaMatmul *p)
{
    bool all = true;
    for (; p && all; p = p->next) {
        const mgpu_tiles s = cuda_moved_tiles(p);
        int bytes = s.type_a == MGPU_F32 ? 4 : 2;
        all = s.arithmetic == MGPU_MMA && s.type_a == s.type_b && s.piece_a * bytes >= 4 && s.piece_b * bytes >= 4;
    }
    return all;
}

static void print_function(const Contraction *plan, const CudaMatmul *p, const char *name, bool finish, Text *text)
{
    int threads = mgpu_tiles_threads(&p->tiles), parameters = cuda_number_count(p);
    bool works = p->tiles.split_tiles > 0;
    const char *a = plan->swapped ? "b" : "a", *b = plan->swapped ? "a" : "b",
               *written = copies(p) && !finish ? "__restrict__" : "MGPU_RESTRICT";
    text_add(text,
             "extern \"C\" __global__ void __launch_bounds__(%d, %d) %s%s(const %s *MGPU_RESTRICT a, const %s *MGPU_RESTRICT b, "
             "%s *%s c, ",
             threads, cuda_matmul_blocks(p), name, finish ? "_finish" : "", type_text(plan->tensor[A]),
             type_text(plan->tensor[B]), type_text(plan->tensor[C]), written);
    text_add(text, "%sconst mgpu_step *step, int64_t n", works ? format("char *%s work, ", written) : "");
    if (parameters > 0)
        text_add(text, ", const __grid_constant__ %s numbers",
                 parameters > 1 ? format("mgpu_number_list<%d>", parameters) : "mgpu_numbers");
    text_add(text, ")\n{\n    " CUDA_FIRST "\n    (void)step;\n");
    if (finish)
        text_add(text, "    (void)a, (void)b;\n    mgpu_contract_finish<%s_matmul, %s_tiles>(%swork, c, n);\n", name, name,
                 parameters ? "numbers, " : "");
    else
        cuda_print_calls(p, parameters, name, a, b, text);
    text_add(text, "}\nMGPU_ENTRY(%s%s)\n", name, finish ? "_finish" : "");
}

/* prints all but the comment */
static void print_functions(const Contraction *plan, const CudaMatmul *p, const char *name, Text *text)
{
    cuda_print_matmul(p, cuda_number_count(p) > 0, name, text);
    for (int i = 0; i < 1 + (p->tiles.split_tiles > 0); i++)
        print_function(plan, p, name, i == 1, text);
}

void cuda_print_contraction(const Contraction *plan, const char *kernel_name, const char *known, Text *text)
{
    const CudaMatmul *p = matmul_of(plan, false);
    contraction_print_comment(plan, tiles_text(&p->tiles), text);
    if (cuda_number_count(p) > 0)
        cuda_comment_numbers(p, text);
    if (known)
        text_add(text, "%s\n", c_comment("%s is %s with these numbers", kernel_name, known));
    else
        print_functions(plan, p, kernel_name, text);
}

/* Returns the form: types, which argument is A, and the matmul's form. No other identity begins with 'f'. */
static const char *shared_name_of(const Contraction *plan, const CudaMatmul *p)
{
    Sha256 sha = mgpu_sha256_begin();
    IDENTITY_ADD(&sha, 'f', plan->tensor[A]->dtype, plan->tensor[B]->dtype, plan->tensor[C]->dtype, plan->swapped);
    cuda_matmul_identity(&sha, p);
    Digest d = mgpu_sha256_end(&sha);
    return identity_key(&d);
}

const char *cuda_contraction_shared_name(const Contraction *plan)
{
    const CudaMatmul *p = matmul_of(plan, false);
    return cuda_number_count(p) > 0 ? shared_name_of(plan, p) : NULL;
}

const char *cuda_contraction_split_shared_name(const Contraction *plan)
{
    CudaMatmul *p = matmul_of(plan, false);
    return cuda_number_count(p) > 0 && cuda_split_depth(p, contraction_samples(plan)) ? shared_name_of(plan, p) : NULL;
}

bool cuda_contraction_is_split(const Contraction *plan) { return matmul_of(plan, false)->tiles.split_tiles > 0; }

const char *cuda_contraction_words(const Contraction *plan)
{
    const mgpu_tiles *s = &matmul_of(plan, false)->tiles;
    return format("matmul_%dx%d_", s->rows, s->columns);
}

int cuda_contraction_parameters(const Contraction *plan, mgpu_numbers to[CUDA_NUMBERS])
{
    return cuda_number_list(matmul_of(plan, false), to);
}

void cuda_contraction_numbers(const Contraction *plan, Text *text) { cuda_print_numbers(matmul_of(plan, false), text); }

void cuda_launches_contraction(const Contraction *plan, const char *kernel_name, mgpu_launch launch[2])
{
    const CudaMatmul *p = matmul_of(plan, false);
    cuda_matmul_launches(p, kernel_name, launch);
}

bool cuda_library_call(const Contraction *plan, mgpu_library_matmul *to)
{
    if (plan->by_one_worker || cuda_is_exact(plan) || !cuda_library_matmul(matmul_of(plan, false), plan->swapped, to))
        return false;
    to->tf32 = to->a.type == MGPU_F32 && plan->node->graph->model->tf32;
    return true;
}

int64_t cuda_contraction_workspace(const Contraction *plan, int64_t samples)
{
    return cuda_matmul_workspace(matmul_for(plan, samples, false));
}

int64_t cuda_contraction_or_library_workspace(const Contraction *plan, int64_t samples, const char *archs)
{
    mgpu_library_matmul matmul;
    int64_t own = cuda_contraction_workspace(plan, samples),
            library = cuda_library_call(plan, &matmul) ? cuda_library_workspace(archs) : 0;
    return own > library ? own : library;
}

/* ---- in other tiles */
static bool has_samples(const CudaMatmul *p)
{
    const mgpu_contraction *t = &p->table;
    for (int i = 0; i < t->batch + t->m + t->n + t->k; i++)
        if (p->axis[i].extent == MGPU_SAMPLES)
            return true;
    return false;
}

/* Other tiles add in another order. A result without samples must be equal on all devices, so it keeps its tiles. */
Contraction *cuda_contraction_in_tiles(const Contraction *plan, int place, const char *archs)
{
    const CudaMatmul *own = matmul_of(plan, false);
    if (plan->by_one_worker || cuda_number_count(own) == 0 || !has_samples(own) || place >= cuda_matmul_shapes(own))
        return NULL;
    Contraction *other = NEW(Contraction);
    *other = *plan;
    other->tiles = place;
    bool parts = cuda_contraction_is_split(plan),
         fits = !parts || cuda_contraction_workspace(other, contraction_samples(plan)) <=
                              cuda_contraction_or_library_workspace(plan, contraction_samples(plan), archs);
    return cuda_contraction_is_split(other) == parts && fits ? other : NULL;
}

/* ---- needs */

void cuda_contraction_needs(const Contraction *plan, bool block, UnitNeeds *needs)
{
    for (const CudaMatmul *p = matmul_of(plan, block); p; p = p->next) {
        needs->warpgroups = needs->warpgroups || p->tiles.warpgroups;
        needs->slow += !block;
    }
}

/* ---- by one block */

void cuda_print_block_contraction(const Contraction *plan, const char *name, Text *text)
{
    const CudaMatmul *p = matmul_of(plan, true);
    contraction_print_comment(plan, tiles_text(&p->tiles), text);
    cuda_print_matmul(p, false, name, text);
    text_add(text, "static __device__ void %s(const %s *a, const %s *b, %s *c, char *shared, int64_t begin, int64_t end)\n{\n",
             name, type_text(plan->tensor[A]), type_text(plan->tensor[B]), type_text(plan->tensor[C]));
    cuda_print_block_calls(p, name, plan->swapped ? "b" : "a", plan->swapped ? "a" : "b", text);
    text_add(text, "}\n");
}

int cuda_block_shared_bytes(const Contraction *plan) { return cuda_matmul_shared_bytes(matmul_of(plan, true)); }
