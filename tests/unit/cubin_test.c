/* cubin_test: launches of PTX on the virtual GPU, held to the registers of the cubin that NVRTC makes of the same text. */
#include "vgpu_machine.h"

enum { CU_FUNC_ATTRIBUTE_NUM_REGS = 4, MOST_REGISTERS = 255, MANY = 190 /* that are alive at once */, VALUES = 200 };

/* as many values as a thread can have are alive over a barrier; and few, with a bound on threads and without */
static void write_text(FILE *f)
{
    fprintf(f, "extern \"C\" __global__ void greedy(const float *a, float *b)\n{\n");
    for (int i = 0; i < VALUES; i++)
        fprintf(f, "    float x%d = a[%d * 32 + threadIdx.x];\n", i, i);
    fprintf(f, "    __syncthreads();\n");
    for (int i = 0; i < VALUES; i++)
        fprintf(f, "    b[%d * 32 + threadIdx.x] = x%d - 2 * x%d;\n", i, i, VALUES - 1 - i);
    fprintf(f, "}\nextern \"C\" __global__ void modest(const float *a, float *b) { b[threadIdx.x] = a[threadIdx.x]; }\n");
}

static bool compile(void)
{
    char path[300], command[1500];
    snprintf(path, sizeof path, "%s/text.cu", scratch);
    FILE *f = fopen(path, "w");
    write_text(f);
    fclose(f);
    snprintf(command, sizeof command, "%s/bin/mgpuc --nvrtc %s sm_90 . %s/cubin %s/ptx.so 2>/dev/null", MGPU_BINARY, path,
             scratch, scratch);
    return system(command) == 0;
}

static CUresult launched(const char *name, int threads)
{
    size_t bytes = 4 * (32 * VALUES + 1024);
    CUdeviceptr a = new_memory((int64_t)bytes), b = new_memory((int64_t)bytes);
    MUST(cu->memset_d8_async(a, 0, bytes, gpu[0].stream[0]));
    return try_launch(0, gpu[0].stream[0], name, 1, threads, 0, PARAMETERS(&a, &b));
}

static int attribute(const char *name, int which)
{
    CUfunction f;
    int value = 0;
    MUST(cu->module_get_function(&f, gpu[0].module, name));
    MUST(cu->func_get_attribute(&value, which, f));
    return value;
}

/* 32 registers of a thread are 1,024 of a warp, of 65,536; warps come in fours */
static void held(int wrong)
{
    (void)wrong;
    int registers = attribute("greedy", CU_FUNC_ATTRIBUTE_NUM_REGS),
        most = 65536 / ((registers * 32 + 255) / 256 * 256) / 4 * 4 * 32;
    printf("%s\n", registers > MANY && registers <= MOST_REGISTERS ? "many" : "few");
    printf("%s\n", attribute("greedy", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == most ? "as many threads" : "other threads");
    printf("%d %d\n", launched("greedy", 32), launched("greedy", most + 32));
    printf("%s %d %d\n", attribute("modest", CU_FUNC_ATTRIBUTE_NUM_REGS) < 64 ? "few" : "many",
           attribute("modest", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK), launched("modest", 1024));
}

static void unknown(int wrong)
{
    (void)wrong;
    printf("%d %d\n", attribute("greedy", CU_FUNC_ATTRIBUTE_NUM_REGS),
           attribute("greedy", CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
}

static void compare(const char *name, const char *machine, Scenario *scenario, const char *right)
{
    char report[REPORT];
    in_process(machine, 1, "ptx", scenario, 0, report);
    if (strcmp(report, right) == 0)
        printf("ok %s\n", name);
    else
        printf("not ok %s: %s\n", name, report);
}

int main(void)
{
    char machine[400], right[100];
    const char *folder = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/cubin_test.XXXXXX", folder ? folder : "/tmp");
    if (!mkdtemp(scratch) || !compile()) {
        printf("skip cubins: NVRTC is not installed\n");
        return 0;
    }
    snprintf(machine, sizeof machine, "driver 13.0\ncapability * 9.0\ncubin %s/cubin", scratch);
    snprintf(right, sizeof right, "many\nas many threads\n%d %d\nfew 1024 0\n", CUDA_SUCCESS, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    compare("blocks have no more threads than the cubin's registers allow", machine, held, right);
    compare("without a cubin nothing is known", "driver 13.0\ncapability * 9.0", unknown, "0 1024\n");
    return 0;
}
