/* machine.c: the machine that the file MGPU_VGPU describes, a line for each fact; # begins a comment. Devices are numbers or *.
 * docs/vgpu.md lists the facts. A line that is not understood, or that has words too many, ends the process with status 2.
 */
#include "compiler/link/cubin.h"
#include "tests/vgpu/vgpu.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

Machine vgpu_machine;

static const struct {
    const char *name;
    int error;
} ERRORS[] = {
#define E(name)                                                                                                                  \
    {                                                                                                                            \
#name, name                                                                                                              \
    }
    E(CUDA_ERROR_INVALID_VALUE),
    E(CUDA_ERROR_OUT_OF_MEMORY),
    E(CUDA_ERROR_NOT_INITIALIZED),
    E(CUDA_ERROR_NO_DEVICE),
    E(CUDA_ERROR_INVALID_DEVICE),
    E(CUDA_ERROR_INVALID_IMAGE),
    E(CUDA_ERROR_INVALID_CONTEXT),
    E(CUDA_ERROR_NO_BINARY_FOR_GPU),
    E(CUDA_ERROR_INVALID_PTX),
    E(CUDA_ERROR_UNSUPPORTED_PTX_VERSION),
    E(CUDA_ERROR_INVALID_HANDLE),
    E(CUDA_ERROR_NOT_FOUND),
    E(CUDA_ERROR_NOT_READY),
    E(CUDA_ERROR_ILLEGAL_ADDRESS),
    E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED),
    E(CUDA_ERROR_LAUNCH_FAILED),
    E(CUDA_ERROR_NOT_PERMITTED),
    E(CUDA_ERROR_NOT_SUPPORTED),
    E(CUDA_ERROR_ECC_UNCORRECTABLE),
    E(CUDA_ERROR_NVLINK_UNCORRECTABLE),
    E(CUDA_ERROR_CONTAINED),
    E(CUDA_ERROR_LAUNCH_TIMEOUT),
    E(CUDA_ERROR_MISALIGNED_ADDRESS),
    E(CUDA_ERROR_TENSOR_MEMORY_LEAK),
    E(CUDA_ERROR_MPS_CLIENT_TERMINATED),
    E(CUDA_ERROR_EXTERNAL_DEVICE),
    E(CUDA_ERROR_UNKNOWN),
#undef E
    {"CUDA_ERROR_DEVICE_UNAVAILABLE", 46},
    {"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", 705},
    {"CUDA_ERROR_CONTEXT_IS_DESTROYED", 709},
    {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 900},
    {"CUDA_ERROR_STREAM_CAPTURE_MERGE", 902},
    {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", 901},
    {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", 903},
    {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", 904},
    {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", 905},
    {"CUDA_ERROR_CAPTURED_EVENT", 907},
    {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", 908},
    {"ncclUnhandledCudaError", 1},
    {"ncclSystemError", 2},
    {"ncclInternalError", 3},
    {"ncclInvalidArgument", 4},
    {"ncclInvalidUsage", 5},
    {"ncclRemoteError", 6},
    {"CUBLAS_STATUS_NOT_INITIALIZED", 1},
    {"CUBLAS_STATUS_ALLOC_FAILED", 3},
    {"CUBLAS_STATUS_EXECUTION_FAILED", 13},
    {"CUBLAS_STATUS_INTERNAL_ERROR", 14},
    {"CUBLAS_STATUS_NOT_SUPPORTED", 15},
    {"CUBLAS_STATUS_ARCH_MISMATCH", 8},
    {"CUDNN_STATUS_NOT_INITIALIZED", 1001},
    {"CUDNN_STATUS_BAD_PARAM", 2000},
    {"CUDNN_STATUS_NOT_SUPPORTED", 3000},
    {"CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH", 3007},
    {"CUDNN_STATUS_INTERNAL_ERROR", 4000},
    {"CUDNN_STATUS_EXECUTION_FAILED", 5000},
};

const char *vgpu_error_name(int error)
{
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].error == error && strncmp(ERRORS[i].name, "CUDA", 4) == 0)
            return ERRORS[i].name;
    return NULL;
}

/* calls that can fail, by name */
static const char *const CALLS[] = {
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceCanAccessPeer",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceGetPCIBusId",
    "cuDeviceGetUuid",
    "cuDeviceTotalMem",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease",
    "cuCtxSetCurrent",
    "cuCtxEnablePeerAccess",
    "cuCtxDisablePeerAccess",
    "cuMemGetInfo",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuModuleLoadDataEx",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync",
    "cuMemcpyDtoDAsync",
    "cuMemcpyPeerAsync",
    "cuMemsetD8Async",
    "cuMemsetD32Async",
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuStreamCreateWithPriority",
    "cuStreamDestroy",
    "cuStreamSynchronize",
    "cuLaunchHostFunc",
    "cuStreamWriteValue32",
    "cuStreamWaitEvent",
    "cuStreamBeginCapture",
    "cuStreamEndCapture",
    "cuGraphInstantiateWithFlags",
    "cuGraphUpload",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuGraphDestroy",
    "cuEventCreate",
    "cuEventDestroy",
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cublasLtCreate",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatmulAlgoGetHeuristic",
    "cublasLtMatmul",
    "cudnnCreate",
    "cudnnSetStream",
    "cudnnBackendCreateDescriptor",
    "cudnnBackendSetAttribute",
    "cudnnBackendGetAttribute",
    "cudnnBackendFinalize",
    "cudnnBackendExecute",
    "ncclCommInitAll",
    "ncclGetUniqueId",
    "ncclCommInitRank",
    "ncclMemAlloc",
    "ncclMemFree",
    "ncclCommRegister",
    "ncclCommDeregister",
    "ncclCommDestroy",
    "ncclCommAbort",
    "ncclCommGetAsyncError",
    "ncclGetVersion",
    "ncclAllReduce",
    "ncclReduceScatter",
    "ncclReduce",
    "ncclAllGather",
    "ncclBroadcast",
    "ncclSend",
    "ncclRecv",
    "ncclGroupStart",
    "ncclGroupEnd",
    "nvmlInit",
    "nvmlShutdown",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMigMode",
};

/* ---- the file */

enum { MOST_WORDS = 64 };
typedef struct Line {
    const char *path;
    int number, count;
    char text[512], *word[MOST_WORDS];
} Line;

__attribute__((format(printf, 2, 3))) static _Noreturn void wrong(const Line *l, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", l->path, l->number);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

static bool split(Line *l)
{
    l->count = 0;
    for (char *at = l->text;;) {
        while (isspace((unsigned char)*at))
            at++;
        if (!*at || *at == '#')
            return l->count > 0;
        bool quoted = *at == '"';
        at += quoted;
        if (l->count == MOST_WORDS)
            wrong(l, "more than %d words", MOST_WORDS);
        l->word[l->count++] = at;
        while (*at && (quoted ? *at != '"' : !isspace((unsigned char)*at)))
            at++;
        if (*at)
            *at++ = 0;
    }
}

static const char *word(const Line *l, int k)
{
    if (k >= l->count)
        wrong(l, "a word is missing at its end");
    return l->word[k];
}

static bool is(const Line *l, int k, const char *text) { return strcmp(word(l, k), text) == 0; }

/* a fact is complete with so many words */
static void end(const Line *l, int count)
{
    if (l->count > count)
        wrong(l, "'%s' is a word too many", l->word[count]);
}

static double number(const Line *l, int k, double least)
{
    char *end_of;
    double v = strtod(word(l, k), &end_of);
    if (end_of == l->word[k] || *end_of || !isfinite(v))
        wrong(l, "'%s' is no number", l->word[k]);
    if (v < least)
        wrong(l, "%s is too small, %g is the least", l->word[k], least);
    return v;
}

static int64_t whole(const Line *l, int k, int64_t least)
{
    double v = number(l, k, (double)least);
    if (v > 0x1p53 || floor(v) < v)
        wrong(l, "%s is no whole number", l->word[k]);
    return (int64_t)v;
}

static int small(const Line *l, int k, int least)
{
    int64_t v = whole(l, k, least);
    if (v > INT32_MAX)
        wrong(l, "%s is too large", l->word[k]);
    return (int)v;
}

/* "1GiB", "25GB/s" */
static double amount(const Line *l, int k, const char *unit, bool or_none)
{
    static const struct {
        const char *prefix;
        double factor;
    } PREFIXES[] = {{"", 1},     {"K", 1e3},     {"M", 1e6},     {"G", 1e9},     {"T", 1e12},   {"u", 1e-6},
                    {"m", 1e-3}, {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
    char *at, want[16];
    double v = strtod(word(l, k), &at);
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES && at != l->word[k]; i++) {
        snprintf(want, sizeof want, "%s%s", PREFIXES[i].prefix, unit);
        if (strcmp(at, want) != 0)
            continue;
        if (!isfinite(v) || v < 0 || (v <= 0 && !or_none))
            wrong(l, "%s is too small", l->word[k]);
        return v * PREFIXES[i].factor;
    }
    wrong(l, "'%s' is no amount with its unit, such as 1G%s", l->word[k], unit);
}

static int error_of(const Line *l, int k)
{
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (is(l, k, ERRORS[i].name))
            return ERRORS[i].error;
    if (!isdigit((unsigned char)*l->word[k]))
        wrong(l, "there is no error %s", l->word[k]);
    return small(l, k, 1);
}

/* devices [*first, *last] */
static void devices(const Line *l, int k, int *first, int *last)
{
    bool all = is(l, k, "*");
    *first = all ? 0 : small(l, k, 0);
    *last = all ? vgpu_machine.count - 1 : *first;
    if (*last >= vgpu_machine.count && !all)
        wrong(l, "there is no device %d: the machine has %d", *first, vgpu_machine.count);
}

static void read_link(const Line *l)
{
    int first, last, begin = 0, finish = -1;
    bool host = is(l, 2, "host");
    double speed = is(l, 3, "none") ? 0 : amount(l, 3, "B/s", false);
    end(l, 4);
    devices(l, 1, &first, &last);
    if (!host)
        devices(l, 2, &begin, &finish);
    for (int d = first; d <= last; d++) {
        if (host)
            vgpu_machine.device[d].host_link = speed;
        for (int e = begin; e <= finish; e++)
            vgpu_machine.device[d].link[e] = vgpu_machine.device[e].link[d] = speed;
    }
}

static void check_call(const Line *l, int k)
{
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        if (is(l, k, CALLS[i]))
            return;
    wrong(l, "no library has a call %s", l->word[k]);
}

static void read_fault(const Line *l)
{
    bool kernel = is(l, 1, "kernel"), hang = is(l, 0, "hang");
    int planted = is(l, 0, "forget") ? VGPU_FORGOTTEN : hang ? VGPU_HANGS : 0, words = 3 + kernel;
    Fault f = {.number = whole(l, 2 + kernel, 1), .error = planted ? planted : error_of(l, words++), .line = l->number};
    f.all = hang && l->count > words && is(l, words, "all");
    f.later = !planted && l->count > words && is(l, words, "later");
    end(l, words + (f.all || f.later));
    if (!kernel)
        check_call(l, 1);
    if (f.later && !is(l, 1, "ncclAllReduce"))
        wrong(l, "only ncclAllReduce fails later");
    snprintf(f.call, sizeof f.call, "%s", word(l, 1 + kernel));
    Fault **list = kernel ? &vgpu_machine.kernel_faults : &vgpu_machine.faults;
    int *count = kernel ? &vgpu_machine.kernel_fault_count : &vgpu_machine.fault_count;
    *list = realloc(*list, (size_t)(*count + 1) * sizeof **list);
    (*list)[(*count)++] = f;
}

static void read_corruption(const Line *l)
{
    Corruption c = {.number = l->count > 4 ? whole(l, 4, 1) : 0, .line = l->number};
    int ends[2], last;
    if (!is(l, 1, "link"))
        wrong(l, "a link can be corrupt, not '%s'", l->word[1]);
    end(l, 6);
    snprintf(c.buffer, sizeof c.buffer, "%s", l->count > 5 ? l->word[5] : "");
    for (int k = 0; k < 2; k++)
        if (is(l, 2 + k, "host"))
            ends[k] = -1;
        else if (is(l, 2 + k, "*"))
            ends[k] = -2;
        else
            devices(l, 2 + k, &ends[k], &last);
    c.from = ends[0], c.to = ends[1];
    vgpu_machine.corruptions = realloc(vgpu_machine.corruptions, (size_t)(vgpu_machine.corruption_count + 1) * sizeof c);
    vgpu_machine.corruptions[vgpu_machine.corruption_count++] = c;
}

static void read_epilogue(const Line *l)
{
    if (!is(l, 2, "none"))
        wrong(l, "an epilogue can be none");
    end(l, 3);
    vgpu_machine.refused = realloc(vgpu_machine.refused, (size_t)(vgpu_machine.refused_count + 1) * sizeof *vgpu_machine.refused);
    vgpu_machine.refused[vgpu_machine.refused_count++] = (uint32_t)small(l, 1, 0);
}

/* ---- facts of devices: the words from the third on */

static void set_name(const Line *l, VirtualDevice *v)
{
    size_t length = (size_t)snprintf(v->name, sizeof v->name, "Virtual ");
    for (int k = 2; k < l->count || k == 2; k++) {
        length += (size_t)snprintf(v->name + length, sizeof v->name - length, "%s%s", k > 2 ? " " : "", word(l, k));
        if (length >= sizeof v->name)
            wrong(l, "a name has at most %zu characters", sizeof v->name - 1 - strlen("Virtual "));
    }
}

static void set_card(const Line *l, VirtualDevice *v)
{
    if (!vgpu_become(v, word(l, 2)))
        wrong(l, "there is no card '%s': A100, H100, H200, B200, RTX4090, L4 or T4", l->word[2]);
    end(l, 3);
}

static void set_bus(const Line *l, VirtualDevice *v)
{
    unsigned domain, bus, device, function;
    int length = -1;
    if (sscanf(word(l, 2), "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &length) != 4 || l->word[2][length])
        wrong(l, "'%s' is no place on a bus, such as 0000:65:00.0", l->word[2]);
    end(l, 3);
    snprintf(v->bus, sizeof v->bus, "%s", l->word[2]);
}

/* of the GPU at a bus: it reaches no other device */
static void set_slice(const Line *l, VirtualDevice *v)
{
    bool none = l->count > 3;
    if (none && !is(l, 3, "none"))
        wrong(l, "a slice has a bus, and none is one that nobody has made");
    Line bus = *l;
    bus.count -= none;
    set_bus(&bus, v);
    v->slice = true;
    v->hidden = none;
    for (int d = 0; d < vgpu_machine.count; d++)
        v->link[d] = vgpu_machine.device[d].link[v->number] = 0;
}

static void set_capability(const Line *l, VirtualDevice *v)
{
    int length = -1;
    if (sscanf(word(l, 2), "%d.%d%n", &v->major, &v->minor, &length) != 2 || l->word[2][length] || v->major < 1 || v->minor < 0 ||
        v->minor > 9)
        wrong(l, "'%s' is no compute capability, such as 9.0", l->word[2]);
    end(l, 3);
}

static void set_memory(const Line *l, VirtualDevice *v)
{
    double bytes = amount(l, 2, "B", false);
    if (bytes > 0x1p40)
        wrong(l, "%s is more than 1TiB", l->word[2]);
    v->memory = (size_t)bytes;
    end(l, 3);
}

static void set_shared(const Line *l, VirtualDevice *v)
{
    double bytes = amount(l, 2, "B", false);
    if (bytes > MGPU_VGPU_SHARED)
        wrong(l, "%s is more than %dKiB", l->word[2], MGPU_VGPU_SHARED >> 10);
    v->shared = (size_t)bytes;
    end(l, 3);
}

static void set_bandwidth(const Line *l, VirtualDevice *v)
{
    v->bandwidth = amount(l, 2, "B/s", false);
    end(l, 3);
}

static void set_multiprocessors(const Line *l, VirtualDevice *v)
{
    v->multiprocessors = small(l, 2, 1);
    end(l, 3);
}

static void set_lost(const Line *l, VirtualDevice *v)
{
    if (!is(l, 2, "after"))
        wrong(l, "a device is lost after so many operations: lost 1 after 30");
    v->lost_after = whole(l, 3, 0);
    v->lost = l->count > 4 ? error_of(l, 4) : 999;
    end(l, 5);
}

static void set_devices(int count)
{
    for (int d = vgpu_machine.count; d < count; d++) {
        VirtualDevice *v = &vgpu_machine.device[d];
        *v = (VirtualDevice){.number = d,
                             .memory = (size_t)16 << 30,
                             .major = 8,
                             .minor = 0,
                             .multiprocessors = 4,
                             .bandwidth = 1e12,
                             .host_link = 12e9,
                             .lost_after = -1};
        snprintf(v->name, sizeof v->name, "Virtual GPU");
        snprintf(v->bus, sizeof v->bus, "0000:%02x:00.0", 0x10 + d);
        for (int k = 0; k < 16; k++)
            v->uuid.bytes[k] = (char)(k == 15 ? d : 17 * k);
        for (int e = 0; e < VGPU_DEVICES; e++)
            v->link[e] = e == d ? 0 : 25e9;
    }
    vgpu_machine.count = count;
}

/* ---- facts of the machine */

static void read_devices(const Line *l)
{
    int count = small(l, 1, 0);
    if (count > VGPU_DEVICES)
        wrong(l, "there are 0 to 16 devices");
    end(l, 2);
    set_devices(count);
}

static void read_seed(const Line *l)
{
    vgpu_machine.seed = (uint64_t)whole(l, 1, 0);
    end(l, 2);
}

static void read_patience(const Line *l)
{
    vgpu_machine.patience = number(l, 1, 0);
    end(l, 2);
}

static void read_deadline(const Line *l)
{
    vgpu_machine.deadline = number(l, 1, 0);
    end(l, 2);
}

static void read_nccl(const Line *l)
{
    vgpu_machine.nccl = small(l, 1, 1);
    end(l, 2);
}

static void read_driver(const Line *l)
{
    int major, minor, length = -1;
    if (sscanf(word(l, 1), "%d.%d%n", &major, &minor, &length) != 2 || l->word[1][length] || major < 1 || minor < 0 || minor > 99)
        wrong(l, "'%s' is no version of CUDA, such as 12.4", l->word[1]);
    vgpu_machine.version = 1000 * major + 10 * minor;
    end(l, 2);
}

static void read_ptx(const Line *l)
{
    if (!is(l, 1, "quick"))
        wrong(l, "PTX can be quick");
    vgpu_machine.quick_ptx = true;
    end(l, 2);
}

static void read_truth(const Line *l)
{
    vgpu_machine.truth = strdup(word(l, 1));
    end(l, 2);
}

static void read_delay(const Line *l)
{
    vgpu_machine.delay = amount(l, 1, "s", true);
    end(l, 2);
}

static void read_order(const Line *l)
{
    vgpu_machine.order = is(l, 1, "issued") ? ORDER_ISSUED : ORDER_RANDOM;
    if (vgpu_machine.order == ORDER_RANDOM && !is(l, 1, "random"))
        wrong(l, "an order is random or issued");
    end(l, 2);
}

/* copies that share something take turns there: what a GPU sends to others its port, what goes between the host and all of them a
 * bridge */
static void read_turns(const Line *l)
{
    vgpu_machine.ports = vgpu_machine.ports || is(l, 1, "ports");
    vgpu_machine.bridge = vgpu_machine.bridge || is(l, 1, "bridge");
    if (!is(l, 1, "ports") && !is(l, 1, "bridge"))
        wrong(l, "copies take turns at ports or at the bridge");
    end(l, 2);
}

static void read_registers(const Line *l)
{
    Machine *m = &vgpu_machine;
    int count = small(l, 2, 1);
    end(l, 3);
    m->registers = realloc(m->registers, (size_t)(m->registers_count + 1) * sizeof *m->registers);
    snprintf(m->registers[m->registers_count].function, sizeof m->registers->function, "%s", word(l, 1));
    m->registers[m->registers_count++].count = count;
}

/* a cubin, or a program with cubins in it: an ELF file for a machine that its head names */
static void read_cubin(const Line *l)
{
    Machine *m = &vgpu_machine;
    struct stat s;
    int before = m->cubin_count, file = open(word(l, 1), O_RDONLY | O_CLOEXEC);
    size_t length = file >= 0 && fstat(file, &s) == 0 ? (size_t)s.st_size : 0;
    const char *bytes = length ? mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED; /* for ever */
    for (const char *at = bytes != MAP_FAILED ? bytes : NULL;
         at && (at = memmem(at, length - (size_t)(at - bytes), ELFMAG, SELFMAG)); at += SELFMAG) {
        Elf64_Ehdr head;
        if (length - (size_t)(at - bytes) < sizeof head || (memcpy(&head, at, sizeof head), head.e_machine != EM_CUDA))
            continue;
        m->cubins = realloc(m->cubins, (size_t)(m->cubin_count + 1) * sizeof *m->cubins);
        m->cubins[m->cubin_count].bytes = at;
        m->cubins[m->cubin_count++].length = length - (size_t)(at - bytes);
    }
    if (m->cubin_count == before)
        wrong(l, "there is no cubin in %s", l->word[1]);
    end(l, 2);
}

static void read_slow(const Line *l)
{
    static const char *const NAME[] = {
        [SLOW_KERNELS] = "kernels", [SLOW_CUBLASLT] = "cublasLtMatmul", [SLOW_CUDNN] = "cudnnBackendExecute"};
    int i = 0;
    while (i < SLOWS && !is(l, 1, NAME[i]))
        i++;
    Machine *m = &vgpu_machine;
    bool function = i == SLOWS && strncmp(l->word[1], "k_", 2) == 0 &&
                    m->slow_function_count < (int)(sizeof m->slow_functions / sizeof *m->slow_functions);
    if (i == SLOWS && !function)
        wrong(l, "kernels, k_..., cublasLtMatmul or cudnnBackendExecute can be slow");
    if (function) {
        snprintf(m->slow_functions[m->slow_function_count].function, sizeof m->slow_functions->function, "%s", l->word[1]);
        m->slow_functions[m->slow_function_count++].times = number(l, 2, 0);
    } else {
        m->slow[i] = number(l, 2, 0);
    }
    end(l, 3);
}

static void read_biases(const Line *l)
{
    if (!is(l, 1, "f32"))
        wrong(l, "biases can be f32");
    end(l, 2);
    vgpu_machine.wide_biases = true;
}

static void read_peers(const Line *l)
{
    vgpu_machine.peers = small(l, 1, 1);
    end(l, 2);
}

static void read_switches(const Line *l)
{
    if (!is(l, 1, "fail") && !is(l, 1, "change"))
        wrong(l, "switches fail, or change what they add up");
    end(l, 2);
    vgpu_machine.switches = is(l, 1, "fail") ? SWITCHES_FAIL : SWITCHES_CHANGE;
}

static void read_takes(const Line *l)
{
    Machine *m = &vgpu_machine;
    if (m->taking_count == (int)(sizeof m->taking / sizeof *m->taking))
        wrong(l, "no more calls can take long");
    if (!is(l, 1, "cuDevicePrimaryCtxRetain") && !is(l, 1, "cuModuleLoadDataEx"))
        wrong(l, "cuDevicePrimaryCtxRetain and cuModuleLoadDataEx can take long");
    snprintf(m->taking[m->taking_count].call, sizeof m->taking->call, "%s", word(l, 1));
    m->taking[m->taking_count++].seconds = amount(l, 2, "s", true);
    end(l, 3);
}

void vgpu_take_time(const char *call)
{
    for (int i = 0; i < vgpu_machine.taking_count; i++)
        if (strcmp(vgpu_machine.taking[i].call, call) == 0) {
            double s = vgpu_machine.taking[i].seconds;
            nanosleep(&(struct timespec){(time_t)s, (long)(1e9 * (s - floor(s)))}, NULL);
        }
}

static void read_calls(const Line *l)
{
    if (!is(l, 1, "wait"))
        wrong(l, "calls can wait");
    end(l, 2);
    vgpu_machine.calls_wait = true;
}

static const struct {
    const char *name;
    void (*read)(const Line *);
    void (*set)(const Line *, VirtualDevice *);
} FACTS[] = {
    {"devices", read_devices, NULL},
    {"seed", read_seed, NULL},
    {"patience", read_patience, NULL},
    {"deadline", read_deadline, NULL},
    {"nccl", read_nccl, NULL},
    {"driver", read_driver, NULL},
    {"truth", read_truth, NULL},
    {"delay", read_delay, NULL},
    {"order", read_order, NULL},
    {"link", read_link, NULL},
    {"turns", read_turns, NULL},
    {"fail", read_fault, NULL},
    {"forget", read_fault, NULL},
    {"hang", read_fault, NULL},
    {"epilogue", read_epilogue, NULL},
    {"biases", read_biases, NULL},
    {"calls", read_calls, NULL},
    {"peers", read_peers, NULL},
    {"takes", read_takes, NULL},
    {"switches", read_switches, NULL},
    {"ptx", read_ptx, NULL},
    {"registers", read_registers, NULL},
    {"cubin", read_cubin, NULL},
    {"slow", read_slow, NULL},
    {"corrupt", read_corruption, NULL},
    {"card", NULL, set_card},
    {"name", NULL, set_name},
    {"bus", NULL, set_bus},
    {"slice", NULL, set_slice},
    {"capability", NULL, set_capability},
    {"memory", NULL, set_memory},
    {"shared", NULL, set_shared},
    {"bandwidth", NULL, set_bandwidth},
    {"multiprocessors", NULL, set_multiprocessors},
    {"lost", NULL, set_lost},
};

static void read_line(const Line *l)
{
    for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++) {
        int first, last;
        if (!is(l, 0, FACTS[i].name))
            continue;
        if (FACTS[i].read) {
            FACTS[i].read(l);
            return;
        }
        devices(l, 1, &first, &last);
        for (int d = first; d <= last; d++)
            FACTS[i].set(l, &vgpu_machine.device[d]);
        return;
    }
    wrong(l, "'%s' begins no fact that is known; docs/vgpu.md lists them", l->word[0]);
}

static void read_machine(const char *path)
{
    Line line = {.path = path};
    struct stat s;
    FILE *f = fopen(path, "r");
    if (!f || (fstat(fileno(f), &s) == 0 && S_ISDIR(s.st_mode))) {
        fprintf(stderr, "%s: cannot be read%s; MGPU_VGPU names the file that describes the virtual GPUs\n", path,
                f ? ", it is a folder" : "");
        exit(2);
    }
    while (fgets(line.text, sizeof line.text, f)) {
        line.number++;
        if (strlen(line.text) == sizeof line.text - 1)
            wrong(&line, "a line has at most %zu characters", sizeof line.text - 2);
        if (split(&line))
            read_line(&line);
    }
    fclose(f);
}

/* by bus, if CUDA_DEVICE_ORDER says so, else as in the file */
static int device_of_index(int index)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");
    const Machine *m = &vgpu_machine;
    if (!order || strcmp(order, "PCI_BUS_ID") != 0)
        return index;
    for (int d = 0; d < m->count; d++) {
        int before = 0;
        for (int e = 0; e < m->count; e++)
            before += strcmp(m->device[e].bus, m->device[d].bus) < 0;
        if (before == index)
            return d;
    }
    return index;
}

/* CUDA_VISIBLE_DEVICES: numbers, or beginnings of GPU-uuid or MIG-uuid; the list ends at the first that there is not */
static void show_devices(void)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    Machine *m = &vgpu_machine;
    for (int d = 0; !at && d < m->count; d++)
        if (!m->device[device_of_index(d)].hidden)
            m->visible[m->visible_count++] = device_of_index(d);
    while (at && *at && m->visible_count < VGPU_DEVICES) {
        int found = -1, length = (int)strcspn(at, ",");
        for (int i = 0; i < m->count; i++) {
            char index[16], uuid[64];
            int d = device_of_index(i), end = snprintf(uuid, sizeof uuid, m->device[d].slice ? "MIG-" : "GPU-");
            snprintf(index, sizeof index, "%d", i);
            for (int k = 0; k < 16; k++)
                end += snprintf(uuid + end, sizeof uuid - (size_t)end, "%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "",
                                (unsigned char)m->device[d].uuid.bytes[k]);
            if (((int)strlen(index) == length && strncmp(index, at, (size_t)length) == 0) ||
                (length > 4 && strncmp(uuid, at, (size_t)length) == 0))
                found = d;
        }
        if (found < 0)
            return;
        m->visible[m->visible_count++] = found;
        at += length;
        at += *at == ',';
    }
}

/* "only enumeration of a single MIG instance is supported", and of no other GPU, before R570, which has CUDA 12.8 */
static void show_one_slice(void)
{
    Machine *m = &vgpu_machine;
    for (int i = 0; i < m->visible_count && m->version < 12080; i++)
        if (m->device[m->visible[i]].slice) {
            m->visible[0] = m->visible[i];
            m->visible_count = 1;
        }
}

/* at the end of the process: a fault that nothing met is most likely one of a wrong name */
static const char *machine_path;

static void never(int line, const char *what, const char *name, int64_t seen, int64_t number)
{
    fprintf(stderr, "%s:%d: this never happened: %s%s was seen %lld times, not %lld\n", machine_path, line, what, name,
            (long long)seen, (long long)number);
}

static void say_what_never_happened(void)
{
    const Machine *m = &vgpu_machine;
    for (int i = 0; i < m->fault_count; i++)
        if (m->faults[i].seen < m->faults[i].number)
            never(m->faults[i].line, "the call ", m->faults[i].call, m->faults[i].seen, m->faults[i].number);
    for (int i = 0; i < m->kernel_fault_count; i++)
        if (m->kernel_faults[i].seen < m->kernel_faults[i].number)
            never(m->kernel_faults[i].line, "the kernel ", m->kernel_faults[i].call, m->kernel_faults[i].seen,
                  m->kernel_faults[i].number);
    for (int i = 0; i < m->corruption_count; i++) {
        int64_t number = m->corruptions[i].number ? m->corruptions[i].number : 1;
        if (m->corruptions[i].seen < number)
            never(m->corruptions[i].line,
                  m->corruptions[i].buffer[0] ? "a transfer over this link to " : "a transfer over this link",
                  m->corruptions[i].buffer, m->corruptions[i].seen, number);
    }
}

void vgpu_read_machine(void)
{
    static bool read;
    const char *path = getenv("MGPU_VGPU");
    if (read)
        return;
    read = true;
    vgpu_machine.patience = 20;
    vgpu_machine.nccl = 22005;
    vgpu_machine.version = 12040;
    vgpu_machine.seed = 1;
    set_devices(1);
    if (path && *path) {
        read_machine(path);
        machine_path = path;
        atexit(say_what_never_happened);
    }
    show_devices();
    show_one_slice();
}

/* ---- what the file says is to go wrong */

/* of a fault of a kernel that now runs for this operation; texts of labels stay (vgpu_keep) */
static void tell_truth(Fault *f, const Op *op)
{
    const char *operation = op->work.label && op->work.label->name ? op->work.label->name : "none";
    int k = 0;
    while (k < f->by_count && (f->by[k].operation != operation || f->by[k].device != op->work.device->number))
        k++;
    if (k == f->by_count) {
        f->by = realloc(f->by, (size_t)++f->by_count * sizeof *f->by);
        f->by[k].operation = operation;
        f->by[k].device = op->work.device->number;
        f->by[k].runs = 0;
    }
    f->by[k].runs++;
    FILE *to = f->seen + 1 == f->number ? fopen(vgpu_machine.truth, "a") : NULL;
    if (!to)
        return;
    fprintf(to, "%s device %d run %lld of %s\n", f->call, op->work.device->number, (long long)f->by[k].runs, operation);
    fclose(to);
}

static int fault_of(Fault *f, bool *all)
{
    if (++f->seen != f->number)
        return 0;
    *all = f->all;
    if (f->error > 0 || f->error == VGPU_HANGS)
        vgpu_begin_deadline(f->call);
    return f->later ? VGPU_LATER - f->error : f->error;
}

/* with the lock, which a call that never returns keeps where all others hang, too. What the GPUs have to do goes on */
static _Noreturn void never_return(bool all)
{
    for (;;) {
        vgpu_advance(1 << 30);
        if (!all)
            pthread_mutex_unlock(&vgpu_lock);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        if (!all)
            pthread_mutex_lock(&vgpu_lock);
    }
}

double vgpu_slowness_of(const char *function)
{
    double times = 1;
    for (int i = 0; i < vgpu_machine.slow_function_count; i++)
        if (strncmp(function, vgpu_machine.slow_functions[i].function, strlen(vgpu_machine.slow_functions[i].function)) == 0)
            times *= vgpu_machine.slow_functions[i].times;
    return times;
}

double vgpu_slowness(Slow what) { return vgpu_machine.slow[what] > 0 ? vgpu_machine.slow[what] : 1; }

int vgpu_registers(const char *function)
{
    for (int i = 0; i < vgpu_machine.registers_count; i++)
        if (strcmp(vgpu_machine.registers[i].function, function) == 0)
            return vgpu_machine.registers[i].count;
    for (int i = 0; i < vgpu_machine.cubin_count; i++) {
        CubinFunction f;
        if (cubin_function(vgpu_machine.cubins[i].bytes, vgpu_machine.cubins[i].length, function, &f))
            return f.registers;
    }
    return 0;
}

int vgpu_fault(const char *call)
{
    bool all = false;
    int error = 0;
    for (int i = 0; i < vgpu_machine.fault_count; i++)
        if (strcmp(vgpu_machine.faults[i].call, call) == 0) {
            int now = fault_of(&vgpu_machine.faults[i], &all);
            error = now ? now : error;
        }
    if (error == VGPU_HANGS && (all || strcmp(call, "ncclAllReduce") != 0))
        never_return(all);
    return error;
}

/* the kernel k12 of the program's tables has the functions k_..., k12, and k_..._finish, k12_finish; `operation` is what the
 * program says of a launch: "d0.c7 k12, line 18", or NULL */
static bool is_kernel(const char *name, const char *function, const char *operation)
{
    static const char FINISH[] = "_finish";
    const char *kernel = operation ? strchr(operation, ' ') : NULL;
    size_t length = kernel ? strcspn(++kernel, ",") : 0, all = strlen(function);
    bool finish = all >= sizeof FINISH && strcmp(function + all - (sizeof FINISH - 1), FINISH) == 0;
    if (strcmp(name, function) == 0)
        return true;
    return length && strncmp(name, kernel, length) == 0 && strcmp(name + length, finish ? FINISH : "") == 0;
}

int vgpu_kernel_fault(const char *function, const Op *op)
{
    const char *operation = op->work.label ? op->work.label->name : NULL;
    bool all;
    int error = 0;
    for (int i = 0; i < vgpu_machine.kernel_fault_count; i++)
        if (is_kernel(vgpu_machine.kernel_faults[i].call, function, operation)) {
            if (vgpu_machine.truth)
                tell_truth(&vgpu_machine.kernel_faults[i], op);
            int now = fault_of(&vgpu_machine.kernel_faults[i], &all);
            error = now ? now : error;
        }
    return error;
}

const Corruption *vgpu_corruption(int from, int to, const char *buffer)
{
    const Corruption *found = NULL;
    for (int i = 0; i < vgpu_machine.corruption_count; i++) {
        Corruption *c = &vgpu_machine.corruptions[i];
        bool here = (c->from == -2 || c->from == from) && (c->to == -2 || c->to == to);
        here = here && (!c->buffer[0] || (buffer && strcmp(buffer, c->buffer) == 0));
        if (here && (++c->seen == c->number || c->number == 0))
            found = c;
    }
    return found;
}

uint64_t vgpu_random(void)
{
    uint64_t z = vgpu_machine.seed += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
