/* nvrtc.c: compile CUDA C to cubin or PTX with NVRTC, NVIDIA's compiler as a library.
 *
 * NVRTC is opened with dlopen, so mgpuc needs it only for programs for GPUs. NVRTC compiles one source at a time in a process, so
 * each source gets a process of its own, as with a C compiler: `mgpuc --nvrtc TEXT ARCH INCLUDE CUBIN PTX`. If CUBIN or PTX is
 * "-", that file is not written. */
#include "compiler/link/translation_units.h"
#include "runtime/cuda/gpus.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The functions of nvrtc.h that are used. All return 0 on success. */
typedef struct Nvrtc {
    const char *(*error)(int);
    int (*version)(int *major, int *minor);
    int (*create)(void **program, const char *text, const char *name, int headers, const char *const *header,
                  const char *const *include);
    int (*compile)(void *program, int options, const char *const *option);
    int (*log_size)(void *program, size_t *);
    int (*log)(void *program, char *);
    int (*cubin_size)(void *program, size_t *);
    int (*cubin)(void *program, char *);
    int (*ptx_size)(void *program, size_t *);
    int (*ptx)(void *program, char *);
    int (*arch_count)(int *);
    int (*archs)(int *); /* [arch_count]: 80 for sm_80 */
} Nvrtc;
/* clang-format off */
static const struct { const char *name; size_t at; bool optional; } FUNCTIONS[] = {
    {"nvrtcGetErrorString", offsetof(Nvrtc, error), false},      {"nvrtcVersion", offsetof(Nvrtc, version), false},
    {"nvrtcCreateProgram", offsetof(Nvrtc, create), false},      {"nvrtcCompileProgram", offsetof(Nvrtc, compile), false},
    {"nvrtcGetProgramLogSize", offsetof(Nvrtc, log_size), false}, {"nvrtcGetProgramLog", offsetof(Nvrtc, log), false},
    {"nvrtcGetCUBINSize", offsetof(Nvrtc, cubin_size), false},   {"nvrtcGetCUBIN", offsetof(Nvrtc, cubin), false},
    {"nvrtcGetPTXSize", offsetof(Nvrtc, ptx_size), false},       {"nvrtcGetPTX", offsetof(Nvrtc, ptx), false},
    /* from CUDA 11.2 */
    {"nvrtcGetNumSupportedArchs", offsetof(Nvrtc, arch_count), true}, {"nvrtcGetSupportedArchs", offsetof(Nvrtc, archs), true},
};
/* clang-format on */
static Nvrtc open_nvrtc(void)
{
    Nvrtc n;
    void *library = toolkit_nvrtc();
    for (int i = 0; i < COUNT(FUNCTIONS); i++) {
        void *function = dlsym(library, FUNCTIONS[i].name);
        if (!function && !FUNCTIONS[i].optional)
            fail(3, "this libnvrtc has no %s: it is older than CUDA 11.1; install a newer CUDA toolkit", FUNCTIONS[i].name);
        memcpy((char *)&n + FUNCTIONS[i].at, &function, sizeof function);
    }
    return n;
}

int nvrtc_version(void)
{
    int major = 0, minor = 0;
    Nvrtc n = open_nvrtc();
    n.version(&major, &minor);
    return 1000 * major + 10 * minor;
}

const char *nvrtc_name(void)
{
    int version = nvrtc_version();
    return format("NVRTC %d.%d", version / 1000, version / 10 % 100);
}

static const char *const FLAGS[] = {"--std=c++17", "--device-as-default-execution-space", "--extra-device-vectorization",
                                    "--ptxas-options=--warn-on-spills"};

void nvrtc_identity(Sha256 *h)
{
    mgpu_sha256_add_text(h, nvrtc_name());
    for (int i = 0; i < COUNT(FLAGS); i++)
        mgpu_sha256_add_text(h, FLAGS[i]);
}

void nvrtc_check(const char *arch)
{
    Nvrtc n = open_nvrtc();
    int count = 0, number = atoi(arch + strcspn(arch, "0123456789"));
    if (!n.arch_count || !n.archs || n.arch_count(&count) || !count)
        return;
    int *archs = NEW_ARRAY(int, count);
    Text text = {0};
    bool known = n.archs(archs) != 0;
    for (int i = 0; i < count && !known; i++) {
        known = archs[i] == number;
        if (archs[i] >= 10 * MGPU_OLDEST_GPU)
            text_add(&text, "%ssm_%d", text.length ? ", " : "", archs[i]);
    }
    if (!known)
        fail(
            2,
            "--arch %s: %s knows %s; newer GPUs run kernels for the last one, too; another NVRTC may know more: MGPU_NVRTC=FILE mgpuc ...",
            arch, nvrtc_name(), text_of(&text));
}

static const char *log_of(const Nvrtc *n, void *program)
{
    size_t size = 0;
    if (n->log_size(program, &size) || size < 2)
        return "";
    char *log = allocate(size + 1);
    return n->log(program, log) ? "" : log;
}

static void write_image(const Nvrtc *n, void *program, const char *arch, bool ptx, const char *path)
{
    size_t size = 0;
    if (strcmp(path, "-") == 0)
        return;
    int status = (ptx ? n->ptx_size : n->cubin_size)(program, &size);
    char *image = allocate(size + 1);
    if (!status)
        status = (ptx ? n->ptx : n->cubin)(program, image);
    if (status)
        fail(3, "NVRTC made no image for %s: %s", arch, n->error(status));
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(image, 1, size, f) == size;
    if (!f || fclose(f) || !good)
        fail(3, "%s cannot be written: %s", path, strerror(errno));
}

int command_nvrtc(int argc, char **argv)
{
    if (argc != 5)
        fail(2, "--nvrtc is for mgpuc itself: TEXT ARCH INCLUDE CUBIN PTX");
    const char *file = argv[0], *arch = argv[1];
    size_t length;
    const char *text = read_file(file, &length);
    if (!text)
        fail(3, "%s cannot be read: %s", file, strerror(errno));
    Nvrtc n = open_nvrtc();
    void *program = NULL;
    const char *options[2 + COUNT(FLAGS)] = {format("--gpu-architecture=%s", arch), format("--include-path=%s", argv[2])};
    for (int i = 0; i < COUNT(FLAGS); i++)
        options[2 + i] = FLAGS[i];
    int status = n.create(&program, text, file, 0, NULL, NULL);
    if (!status)
        status = n.compile(program, COUNT(options), options);
    if (status)
        fail(3, "%s does not compile the kernels for %s: %s\n%s", nvrtc_name(), arch, n.error(status),
             program ? log_of(&n, program) : "");
    const char *log = log_of(&n, program);
    fprintf(stderr, "%s%s", log, *log && log[strlen(log) - 1] != '\n' ? "\n" : "");
    write_image(&n, program, arch, false, argv[3]);
    write_image(&n, program, arch, true, argv[4]);
    return 0;
}
