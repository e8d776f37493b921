/* call_tables.c: one launch of several calls.
 *
 * A model has as many updates as weights, most of them small: a launch for each takes longer than its work, and leaves most of
 * the GPU idle. In: kernels, whose code marks where the thread's number in the launch is used (TERM_GRID). Out: the most calls of
 * one launch of a function (kernel->together): as many as a phase has updates with it, or as fit into parameters; and the text of
 * such a function. It takes a table (mgpu_calls) with a row per call: its arguments, its samples, its numbers, and the first of
 * its blocks. So it is independent of the calls. The plan decides which calls share a launch (plan/update_launches.c): they are a
 * region. */
#include "compiler/kernel/phase.h"
#include "compiler/target/cuda/cuda.h"

static int words_of(const Kernel *k) { return k->parameter_count > 0 ? k->parameter_count : 1; }
static int most_calls(const Kernel *k) { return MGPU_TABLE_BYTES / mgpu_call_bytes(k->read_count + k->write_count, words_of(k)); }

void cuda_count_calls_per_launch(Program *p)
{
    for (int i = 0; i < p->phase_count; i++) {
        int *calls = NEW_ARRAY(int, p->kernel_count);
        for (int t = 0; t < p->phases[i]->task_count; t++) {
            const Task *task = p->phases[i]->tasks[t];
            const Kernel *k = task->kernel ? kernel_function(task->kernel) : NULL;
            if (!k || !task->update || !cuda_may_join(k) || ++calls[k->number] <= k->calls_per_launch ||
                calls[k->number] > most_calls(k))
                continue;
            p->kernels[k->number]->calls_per_launch = calls[k->number] > 1 ? calls[k->number] : 0;
        }
    }
}

int cuda_calls_per_launch(const Kernel *k) { return kernel_function(k)->calls_per_launch; }

/* Prints the arguments of the call, as parameters of the function of one call. */
static void print_arguments(const Kernel *k, Text *t)
{
    for (int i = 0; i < k->read_count + k->write_count; i++) {
        const Tensor *x = i < k->read_count ? k->reads[i] : k->writes[i - k->read_count];
        text_add(t, "(%s%s *)calls.argument[own.call][%d], ", i < k->read_count ? "const " : "", element_type(x->dtype), i);
    }
}

void cuda_print_call_table(const Kernel *k, Text *t)
{
    int words = words_of(k);
    text_add(t, "MGPU_FUNCTION void %s_call", k->name);
    const char *given = k->parameter_count ? format(", const mgpu_parameters<%d> &given", words) : "";
    code_print(
        k->code,
        &(CodePrint){
            .kernel = k->name, .given = k->parameter_at, .more = format("%s, const mgpu_own_call own", given), .grid = "own."},
        t);
    text_add(t,
             "extern \"C\" __global__ void %s(const __grid_constant__ mgpu_calls<%d, %d, %d> calls, const mgpu_step "
             "*MGPU_RESTRICT step)\n{\n",
             k->name, k->calls_per_launch, k->read_count + k->write_count, words);
    text_add(t, "    const mgpu_own_call own = mgpu_find_call(calls);\n    %s_call(", k->name);
    print_arguments(k, t);
    text_add(t, "step, calls.n[own.call]%s, own);\n}\nMGPU_ENTRY(%s)\n", k->parameter_count ? ", calls.given[own.call]" : "",
             k->name);
}
