/* vgpu_test: kernels on the virtual GPU (docs/vgpu.md): for each thing that it checks one that is right and one with the planted
 * bug. Every case runs in a process of its own, with several seeds: a bug is found whatever order is drawn. */
#include "runtime/cuda/table.h"
#include "vgpu_machine.h"

static const char *const ARCHS[] = {"vgpu", "vgpu-check", "ucontext"};

/* ---- bugs inside a kernel */

typedef enum { A_B_WRONG, B_WRONG, A_B_N, B_N, A_B, W_B_WRONG } Form;
typedef struct KernelCase {
    const char *name, *kernel, *wrong_kernel; /* wrong_kernel NULL: the last argument says it */
    Form form;
    int blocks, threads, shared;
    int64_t right, wrong;    /* the last argument */
    bool plain;              /* found without checked accesses, too */
    const char *kind, *text; /* of the report */
} KernelCase;

static const KernelCase KERNELS[] = {
    {"store outside memory", "twice", "twice_wrong", A_B_N, 4, 64, 0, FLOATS, FLOATS, true, "bounds", "behind the end"},
    {"load outside memory", "look_ahead", NULL, A_B_N, 1, 64, 0, 0, FLOATS, true, "bounds", "behind the end"},
    {"load that is not aligned", "vectors", NULL, A_B_WRONG, 1, 64, 0, 0, 1, false, "alignment", "multiple of 16"},
    {"no barrier after stores", "reverse", NULL, A_B_WRONG, 1, 256, 0, 0, 1, false, "", "shared memory: "},
    {"no barrier before stores", "rounds", NULL, A_B_WRONG, 1, 256, 0, 0, 1, false, "barrier", "no barrier stands between"},
    {"no barrier of the warp", "reverse_warp", NULL, A_B_WRONG, 1, 256, 0, 0, 1, false, "", "shared memory: "},
    {"update of what the warp still reads", "turns", NULL, B_WRONG, 1, 64, 0, 0, 1, false, "barrier",
     "no barrier stands between"},
    {"shuffle in place of a barrier", "accumulate", NULL, B_WRONG, 1, 32, 0, 0, 1, false, "barrier", "no barrier stands between"},
    {"shared memory that nobody set", "unset", NULL, B_WRONG, 1, 64, 0, 0, 1, false, "uninitialised", "no thread of this block"},
    {"more shared memory than the launch has", "dynamic", NULL, B_N, 1, 64, 1024, 256, 257, false, "bounds",
     "dynamic shared memory"},
    {"index outside a shared array", "outside", NULL, B_N, 1, 32, 0, 0, 32, false, "bounds", "outside its array"},
    {"asynchronous copy used before it is there", "ahead", NULL, A_B_WRONG, 1, 32, 0, 0, 1, false, "barrier", "no barrier"},
    {"asynchronous copy that nobody waits for", "abandoned", NULL, A_B_WRONG, 1, 32, 0, 0, 1, true, "copy", "had not waited"},
    {"barrier that some do not reach", "some", NULL, B_WRONG, 1, 64, 0, 0, 1, true, "barrier", "40 threads wait"},
    {"two barriers in one place", "either", NULL, B_WRONG, 1, 64, 0, 0, 1, true, "barrier", "different barriers"},
    {"mask with lanes that do not come", "lanes", NULL, B_WRONG, 1, 32, 0, 0, 1, true, "lanes", "different operations"},
    {"mask without the lane itself", "unnamed", NULL, B_WRONG, 1, 32, 0, 0, 1, true, "lanes", "does not name"},
    {"lanes in different operations", "mixed", NULL, B_WRONG, 1, 32, 0, 0, 1, true, "lanes", "different operations"},
    {"blocks that write one place", "partial", NULL, A_B_WRONG, 8, 32, 0, 0, 1, false, "blocks", "another block"},
    {"update that is not atomic", "count", NULL, B_WRONG, 4, 32, 0, 0, 1, false, "", "has written it"},
    {"__ldg of what the kernel writes", "constant", NULL, W_B_WRONG, 1, 32, 0, 0, 1, false, "constant", "__ldg"},
    {"division by zero", "divide", NULL, A_B_WRONG, 1, 32, 0, 0, 1, true, "arithmetic", "zero"},
    {"shift by more than there is", "arithmetic", NULL, A_B_WRONG, 1, 32, 0, 0, 1, false, "arithmetic", "shift"},
};
static const KernelCase *kernel_case;

static void run_kernel(int wrong)
{
    const KernelCase *k = kernel_case;
    int64_t last = wrong ? k->wrong : k->right;
    Gpu *g = &gpu[0];
    const char *name = wrong && k->wrong_kernel ? k->wrong_kernel : k->kernel;
    void *forms[][3] = {[A_B_WRONG] = {&g->a, &g->b, &last},
                        [B_WRONG] = {&g->b, &last},
                        [A_B_N] = {&g->a, &g->b, &last},
                        [B_N] = {&g->b, &last},
                        [A_B] = {&g->a, &g->b},
                        [W_B_WRONG] = {&g->w, &g->b, &last}};
    MUST(try_launch(0, g->stream[0], name, k->blocks, k->threads, k->shared, forms[k->form]));
}

static void test_kernels(void)
{
    for (int k = 0; k < COUNT(KERNELS); k++) {
        kernel_case = &KERNELS[k];
        for (int arch = kernel_case->plain ? 0 : 1; arch < 2; arch++)
            both(kernel_case->name, NULL, ARCHS[arch], run_kernel, kernel_case->kind, arch ? kernel_case->text : "");
    }
}

/* ---- what an operation declares */

static void undeclared_store(int wrong)
{
    Gpu *g = &gpu[0];
    int64_t n = 100;
    declare_two(0, "c1", range_of(g->a, 0, 100, 0, "x"), range_of(g->b, 0, 100 - wrong, 1, "y"));
    LAUNCH(0, 0, "twice", 1, 32, 0, &g->a, &g->b, &n);
}

static void undeclared_load(int wrong)
{
    Gpu *g = &gpu[0];
    int64_t n = 100;
    declare_two(0, "c1", range_of(g->a, wrong, 100, 0, "x"), range_of(g->b, 0, 100, 1, "y"));
    LAUNCH(0, 0, "twice", 1, 32, 0, &g->a, &g->b, &n);
}

static void load_before_store(int wrong)
{
    Gpu *g = &gpu[0];
    int64_t last = wrong;
    declare_two(0, "c1", range_of(g->w, 0, 32, 1, "work"), range_of(g->b, 0, 32, 1, "y"));
    LAUNCH(0, 0, "workspace", 1, 32, 0, &g->w, &g->b, &last);
}

static void undeclared_copy(int wrong)
{
    Gpu *g = &gpu[0];
    float *staging = new_locked(100);
    memset(staging, 0, 400);
    CudaRange to = range_of(g->b, 0, 100 - wrong, 1, "in");
    declare(g->stream[0], "u1", &to, 1);
    MUST(cu->memcpy_htod_async(g->b, staging, 400, g->stream[0]));
}

static void declared_outside(int wrong)
{
    CudaRange r = range_of(gpu[0].b, 0, FLOATS + wrong, 1, "y");
    declare(gpu[0].stream[0], "c1", &r, 1);
}

static void stale(int wrong)
{
    Gpu *g = &gpu[0];
    int64_t n = 100;
    declare_two(0, "c1", range_of(g->a, 0, 100, 0, "x"), range_of(g->b, 0, 100, 1, "y"));
    LAUNCH(0, 0, "twice", 1, 32, 0, &g->a, &g->b, &n);
    declare_two(0, "c2", range_of(g->b, 0, 100, 0, wrong ? "z" : "y"), range_of(g->w, 0, 100, 1, "v"));
    LAUNCH(0, 0, "twice", 1, 32, 0, &g->b, &g->w, &n);
}

static void new_memory_read(int wrong)
{
    CUdeviceptr fresh = (use(0), new_memory(4 * FLOATS));
    int64_t n = 100, begin = 0, end = 100 - wrong;
    float value = 1;
    LAUNCH(0, 0, "fill", 1, 32, 0, &fresh, &begin, &end, &value);
    LAUNCH(0, 0, "twice", 1, 32, 0, &fresh, &gpu[0].b, &n);
}

static void freed(int wrong)
{
    CUdeviceptr fresh = (use(0), new_memory(4 * FLOATS));
    int64_t n = 100, begin = 0;
    float value = 1;
    LAUNCH(0, 0, "fill", 1, 32, 0, &fresh, &begin, &n, &value);
    if (wrong)
        MUST(cu->mem_free(fresh));
    LAUNCH(0, 0, "twice", 1, 32, 0, &fresh, &gpu[0].b, &n);
}

static void other_device(int wrong)
{
    int64_t n = 100;
    use(0);
    if (!wrong)
        MUST(cu->ctx_enable_peer_access(gpu[1].context, 0));
    LAUNCH(0, 0, "twice", 1, 32, 0, &gpu[1].a, &gpu[0].b, &n);
}

/* a launch of several calls: uneven ones, one of them empty. what: the second has another address, more elements, or the first
 * one's */
enum { ADDRESS = 1, LENGTH, ROW, CALLS };
static const int LENGTHS[CALLS] = {700, 3, 0, 257};

static void launch_together(int what)
{
    Gpu *g = &gpu[0];
    CallTable t;
    void *parameters[] = {t.bytes};
    CudaRange ranges[2 * CALLS];
    mgpu_begin_table(&t, CALLS + 1, 2, 1);
    for (int k = 0; k < CALLS; k++) {
        CUdeviceptr a = g->a + 4096 * (CUdeviceptr)k, b = g->b + 4096 * (CUdeviceptr)k;
        void *argument[] = {(void *)(uintptr_t)a, (void *)(uintptr_t)(b - (what == ADDRESS && k == 1 ? 4 : 0))};
        uint32_t number = 2 + (uint32_t)k;
        ranges[2 * k] = range_of(a, 0, LENGTHS[k], 0, "x");
        ranges[2 * k + 1] = range_of(b, 0, LENGTHS[k], 1, "y");
        mgpu_add_call(&t, argument, LENGTHS[k] + (what == LENGTH && k == 1), &number, k ? 1 : 2);
    }
    if (what == ROW)
        memcpy(t.argument + 2, t.argument, 2 * sizeof *t.argument);
    declare(g->stream[0], "u1", ranges, 2 * CALLS);
    MUST(try_launch(0, g->stream[0], "several", (int)t.blocks, 256, 0, parameters));
}

static void wrong_address(int wrong) { launch_together(wrong ? ADDRESS : 0); }
static void wrong_length(int wrong) { launch_together(wrong ? LENGTH : 0); }
static void wrong_row(int wrong) { launch_together(wrong ? ROW : 0); }

static void test_operations(void)
{
    both("store that is not declared", NULL, "vgpu-check", undeclared_store, "undeclared", "c1 (twice), kernels.cu:");
    both("load that is not declared", NULL, "vgpu-check", undeclared_load, "undeclared", "loads 4 bytes");
    both("workspace read before it is written", NULL, "vgpu-check", load_before_store, "undeclared",
         "work: the operation declares that it writes");
    both("copy that is not declared", NULL, "vgpu", undeclared_copy, "undeclared", "u1 (cuMemcpyHtoDAsync) writes");
    both("declaration outside memory", NULL, "vgpu", declared_outside, "declaration", "y, 16388 bytes");
    both("bytes that hold another buffer", NULL, "vgpu", stale, "stale",
         "c2 (twice) reads z, bytes [0, 400) of device memory, which hold y, written by c1 (twice)");
    both("memory that nobody wrote", NULL, "vgpu-check", new_memory_read, "uninitialised", "byte 396 of 16384");
    both("memory that was freed", NULL, "vgpu-check", freed, "bounds", "freed");
    both("memory that was freed", NULL, "vgpu", freed, "bounds", "freed");
    both("memory of another device", NULL, "vgpu-check", other_device, "bounds", "access is not enabled");
    both("address in a table of calls", NULL, "vgpu-check", wrong_address, "undeclared", "u1 (several)");
    both("length in a table of calls", NULL, "vgpu-check", wrong_length, "undeclared", "u1 (several)");
    both("row in a table of calls", NULL, "vgpu-check", wrong_row, "blocks", "another block");
}

/* ---- results */

static void right_results(int wrong)
{
    float b[FLOATS];
    Gpu *g = &gpu[0];
    int64_t n = FLOATS, zero = 0;
    (void)wrong;
    LAUNCH(0, 0, "twice", 7, 96, 0, &g->a, &g->b, &n);
    download(0, b, g->b, FLOATS);
    for (int i = 0; i < FLOATS; i++)
        if (b[i] != 2 * (float)i)
            printf("twice[%d] = %g\n", i, (double)b[i]);
    LAUNCH(0, 0, "reverse", 1, 256, 0, &g->a, &g->b, &zero);
    download(0, b, g->b, FLOATS);
    for (int i = 0; i < 256; i++)
        if (b[i] != (float)(255 - i))
            printf("reverse[%d] = %g\n", i, (double)b[i]);
    LAUNCH(0, 0, "partial", 8, 32, 0, &g->a, &g->w, &zero);
    LAUNCH(0, 0, "total", 1, 1, 0, &g->w, &g->b, &(int64_t){8});
    download(0, b, g->b, 1);
    if (b[0] != 255 * 128)
        printf("total = %g\n", (double)b[0]);
    LAUNCH(0, 0, "ahead", 1, 32, 0, &g->a, &g->b, &zero);
    download(0, b, g->b, 128);
    for (int i = 0; i < 32; i++)
        if (b[i] != (i == 0 ? 0 : (float)(127 - i)))
            printf("ahead[%d] = %g\n", i, (double)b[i]);
}

static int popcount(unsigned v)
{
    int n = 0;
    for (; v; v &= v - 1)
        n++;
    return n;
}

static void right_lanes(int wrong)
{
    int32_t b[FLOATS];
    (void)wrong;
    LAUNCH(0, 0, "together", 1, 96, 0, &gpu[0].b);
    download(0, (float *)b, gpu[0].b, 16 * 96);
    for (int t = 0; t < 96; t++) {
        int lane = t % 32, base = t - lane, *r = b + 16 * t;
        int want[] = {base + 5, lane < 2 ? t : t - 2, lane % 8 < 5 ? t + 3 : t, t ^ 7, (int)0xAAAAAAAAu, 1, 32, 2,
                      -1,       32 * base + 31 * 16};
        for (int k = 0; k < COUNT(want); k++)
            if (r[k] != want[k])
                printf("thread %d, result %d: %d, not %d (%d)\n", t, k, r[k], want[k], popcount((unsigned)r[k]));
    }
}

/* nine kernels on three streams, then one of eight blocks: the numbers of the streams, of the blocks */
static void orders(int wrong)
{
    int32_t list[18];
    (void)wrong;
    for (int k = 0; k < 9; k++)
        LAUNCH(0, k % 3, "note", 1, 1, 0, &gpu[0].b, &(int64_t){10 * (k % 3) + k / 3});
    finish(0);
    LAUNCH(0, 0, "note", 8, 1, 0, &gpu[0].b, &(int64_t){0});
    download(0, (float *)list, gpu[0].b, 18);
    for (int k = 1, next[3] = {0}; k <= 9; k++)
        if (list[k] % 10 != next[list[k] / 10]++)
            printf("out of order ");
    for (int k = 1; k <= 17; k++)
        printf("%d ", list[k]);
}

/* the same for a seed, not for two; as issued where the machine says so */
static void test_orders(void)
{
    char first[REPORT], again[REPORT], other[REPORT];
    int status = in_process(NULL, 1, "vgpu", orders, 0, first);
    result(!status && !strstr(first, "out"), "streams run in their order", first);
    status = in_process(NULL, 1, "vgpu", orders, 0, again);
    result(!status && strcmp(first, again) == 0, "a seed has one order", again);
    status = in_process(NULL, 2, "vgpu", orders, 0, other);
    result(!status && strcmp(first, other) != 0 && strcmp(strstr(first, " 2 ") + 3, strstr(other, " 2 ") + 3) != 0,
           "seeds have different orders", other);
    status = in_process("order issued", 2, "vgpu", orders, 0, other);
    result(!status && strcmp(other, "0 10 20 1 11 21 2 12 22 0 1 2 3 4 5 6 7 ") == 0, "order issued", other);
}

/* what a wrong machine file says */
static void test_messages(void)
{
    static const struct {
        const char *line, *says;
    } CASES[] = {
        {"wings 0 2", "/machine:4: 'wings' begins no fact that is known; docs/vgpu.md lists them\n"},
        {"memory 7 1GiB", "/machine:4: there is no device 7: the machine has 3\n"},
        {"memory 0 1Gib", "/machine:4: '1Gib' is no amount with its unit, such as 1GB\n"},
        {"memory 0", "/machine:4: a word is missing at its end\n"},
        {"devices two", "/machine:4: 'two' is no number\n"},
        {"devices 17", "/machine:4: there are 0 to 16 devices\n"},
        {"capability 0 9.0 8.0", "/machine:4: '8.0' is a word too many\n"},
        {"shared 0 1MiB", "/machine:4: 1MiB is more than 227KiB\n"},
        {"order sometimes", "/machine:4: an order is random or issued\n"},
    };
    for (int k = 0; k < COUNT(CASES); k++) {
        char report[REPORT], path[300], title[100];
        snprintf(path, sizeof path, "%s/log", scratch);
        int status = in_process(CASES[k].line, 1, "vgpu", orders, 0, report);
        char *text = read_file(path), *at = text ? strstr(text, "/machine:") : NULL;
        snprintf(title, sizeof title, "machine file: %s", CASES[k].line);
        result(status == 2 && at && strcmp(at, CASES[k].says) == 0, title, text ? text : "it says nothing");
        free(text);
    }
}

/* static and dynamic shared memory count together: 48 KiB, or what the function was granted; and how large parameters may be */
static void shared_memory(int most)
{
    CUfunction beside, other;
    int value = -1;
    use(0);
    MUST(cu->module_get_function(&other, gpu[0].module, "twice"));
    if (cu->func_get_attribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, other) || value != 0)
        printf("static memory of twice: %d\n", value);
    MUST(cu->module_get_function(&other, gpu[0].module, "reverse"));
    if (cu->func_get_attribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, other) || value != 1024)
        printf("static memory of reverse: %d\n", value);
    MUST(cu->module_get_function(&beside, gpu[0].module, "beside"));
    if (cu->func_get_attribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, beside) || value != 256)
        printf("static memory of beside: %d\n", value);
    if (cu->module_get_function(&other, gpu[0].module, "too_much") != CUDA_ERROR_INVALID_IMAGE)
        printf("a function with 49156 bytes of static memory was taken\n");
    if (cu->module_get_function(&other, gpu[0].module, "many") ||
        cu->module_get_function(&other, gpu[0].module, "too_many") != CUDA_ERROR_INVALID_IMAGE)
        printf("there can be 4096 bytes of parameters, and no more\n");
    const struct {
        int asked, launched;
        CUresult result[2];
    } CASES[] = {
        {-1, 49152 - 256, {0, 0}},
        {-1, 49152 - 255, {0, CUDA_ERROR_INVALID_VALUE}},
        {-1, 49152, {0, CUDA_ERROR_INVALID_VALUE}},
        {49152, 49152, {0, 0}},
        {49152, 49153, {0, CUDA_ERROR_INVALID_VALUE}},
        {most - 256, most - 256, {0, 0}},
        {most - 255, most - 256, {CUDA_ERROR_INVALID_VALUE, 0}},
    };
    for (int k = 0; k < COUNT(CASES); k++) {
        CUresult r = CASES[k].asked < 0
                         ? 0
                         : cu->func_set_attribute(beside, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CASES[k].asked);
        CUresult launched = try_launch(0, gpu[0].stream[0], "beside", 1, 32, CASES[k].launched, PARAMETERS(&gpu[0].b));
        if (r != CASES[k].result[0] || launched != CASES[k].result[1])
            printf("%d bytes are asked for, %d launched: %d, %d\n", CASES[k].asked, CASES[k].launched, r, launched);
    }
}

static void test_shared_memory(void)
{
    static const struct {
        const char *line;
        int most;
    } CASES[] = {
        {NULL, 163 << 10}, {"capability 0 9.0", 227 << 10}, {"capability 0 8.9", 99 << 10}, {"shared 0 64KiB", 64 << 10}};
    for (int k = 0; k < COUNT(CASES); k++)
        for (int arch = 0; arch < 2; arch++) {
            char report[REPORT] = "", title[100];
            int status = in_process(CASES[k].line, 1, ARCHS[arch], shared_memory, CASES[k].most, report);
            snprintf(title, sizeof title, "shared memory, %d KiB a block (%s)", CASES[k].most >> 10, ARCHS[arch]);
            result(!status && !*report, title, report);
        }
}

static void right_together(int wrong)
{
    float b[FLOATS];
    (void)wrong;
    launch_together(0);
    declare(gpu[0].stream[0], "download", NULL, -1);
    download(0, b, gpu[0].b, FLOATS);
    for (int k = 0; k < CALLS; k++)
        for (int i = 0; i < FLOATS / CALLS; i++) {
            int place = FLOATS / CALLS * k + i;
            if (b[place] != (i < LENGTHS[k] ? (float)(2 + k) * (float)place : 0))
                printf("call %d, element %d is %g\n", k, i, (double)b[place]);
        }
}

static void test_results(void)
{
    static const struct {
        const char *name;
        Scenario *scenario;
    } CASES[] = {{"kernels compute", right_results},
                 {"lanes and barriers give", right_lanes},
                 {"several calls of a launch compute", right_together}};
    for (int k = 0; k < COUNT(CASES); k++)
        for (int arch = 0; arch < COUNT(ARCHS); arch++) {
            char report[REPORT] = "", title[100];
            int status = 0;
            for (uint64_t seed = 1; seed <= SEEDS && !status && !*report; seed++)
                status = in_process(NULL, seed, ARCHS[arch], CASES[k].scenario, 0, report);
            snprintf(title, sizeof title, "what %s (%s)", CASES[k].name, ARCHS[arch]);
            result(!status && !*report, title, report);
        }
}

int main(void)
{
    open_scratch();
    result(build("ucontext", "-DMGPU_VGPU_UCONTEXT"), "kernels.cu compiles with ucontext", "see above");
    test_results();
    test_orders();
    test_shared_memory();
    test_messages();
    test_kernels();
    count_planted(20, "inside kernels");
    test_operations();
    count_planted(12, "in what operations declare");
    return failures != 0;
}
