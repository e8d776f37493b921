/* module.c: images, which are shared objects for this machine (docs/vgpu.md), and running their kernels. */
#include "tests/vgpu/vgpu.h"
#include "tests/vgpu/ptx/engine.h"
#include "tests/vgpu/ptx/ptx.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    SHARED_WITHOUT_ASKING = 48 << 10 /* bytes, static and dynamic */,
    MOST_PARAMETERS = 4096 /* bytes; 32764 from CUDA 12.1 on alone */,
    SIGNAL_STACK = 1 << 16
};

static struct CUmod_st *modules;

/* ---- loading */

static size_t image_bytes(const void *image)
{
    const Elf64_Ehdr *e = image;
#if defined __x86_64__
    const Elf64_Half machine = EM_X86_64;
#else
    const Elf64_Half machine = EM_AARCH64;
#endif
    if (memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 || e->e_type != ET_DYN || e->e_machine != machine)
        return 0;
    return e->e_shoff + (size_t)e->e_shnum * e->e_shentsize;
}

static int find_extent(struct dl_phdr_info *info, size_t size, void *context)
{
    struct CUmod_st *m = context;
    (void)size;
    if (info->dlpi_addr != m->base)
        return 0;
    for (int k = 0; k < info->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[k];
        if (p->p_type == PT_LOAD) {
            m->begin = m->begin ? m->begin : m->base + p->p_vaddr;
            m->end = m->base + p->p_vaddr + p->p_memsz;
        }
    }
    return 1;
}

static void see(struct CUmod_st *m)
{
    struct link_map *map = NULL;
    if (dlinfo(m->handle, RTLD_DI_LINKMAP, &map) == 0 && map) {
        m->base = map->l_addr;
        dl_iterate_phdr(find_extent, m);
    }
    m->checked = dlsym(m->handle, "mgpu_vgpu_checked") != NULL;
    if (m->checked && !vgpu_some_checked)
        vgpu_forget_writes();
    vgpu_some_checked |= m->checked;
    vgpu_all_checked &= m->checked;
}

/* statics: NULL for what was PTX, which says itself how much shared memory is static */
static CUresult load_object(struct CUctx_st *context, const void *image, size_t bytes, Statics *statics, struct CUmod_st **module,
                            char *log, size_t room)
{
    struct CUmod_st *m = calloc(1, sizeof *m);
    int file = memfd_create("kernels", 0);
    if (!m || file < 0 || write(file, image, bytes) != (ssize_t)bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    snprintf(m->path, sizeof m->path, "/proc/%d/fd/%d", (int)getpid(), file); /* the file stays open for vgpu_place */
    m->handle = dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
    if (!m->handle) {
        const char *why = dlerror();
        snprintf(log, room, "%s", why);
        fprintf(stderr, "virtual GPU: an image cannot be loaded: %s\n", why);
        vgpu_free_statics(statics);
        free(m);
        close(file);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    m->context = context;
    m->statics = statics;
    m->file = file;
    m->next = modules;
    modules = m;
    see(m);
    *module = m;
    return CUDA_SUCCESS;
}

static CUresult load_ptx(struct CUctx_st *context, const char *text, struct CUmod_st **module, char *log, size_t room)
{
    size_t bytes;
    int error;
    const VirtualDevice *d = context->device;
    void *object =
        ptx_load(text, 10 * d->major + d->minor, vgpu_machine.version, !vgpu_machine.quick_ptx, &bytes, &error, log, room);
    if (!object)
        return error;
    CUresult r = load_object(context, object, bytes, NULL, module, log, room);
    if (r == CUDA_SUCCESS)
        *(const PtxEngine **)dlsym((*module)->handle, "mgpu_ptx_engine") = &vgpu_ptx_engine;
    free(object);
    return r;
}

/* for tests of kernels without a driver: PTX as a library with its entries; NULL: the log says why not */
VGPU_API void *vgpuOpenPtx(const char *text, int checked, char *log, size_t room);
void *vgpuOpenPtx(const char *text, int checked, char *log, size_t room)
{
    size_t bytes;
    int error, file = memfd_create("kernels", MFD_CLOEXEC);
    char path[64];
    void *object = ptx_load(text, PTX_ANY, PTX_ANY, checked, &bytes, &error, log, room), *handle = NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (object && file >= 0 && write(file, object, bytes) == (ssize_t)bytes && (handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)))
        *(const PtxEngine **)dlsym(handle, "mgpu_ptx_engine") = &vgpu_ptx_engine;
    free(object);
    return handle; /* the file stays open: the next one has another name */
}

CUresult vgpu_load_module(struct CUctx_st *context, const void *image, struct CUmod_st **module, char *log, size_t room)
{
    if (ptx_is_text(image))
        return load_ptx(context, image, module, log, room);
    size_t bytes = image_bytes(image);
    if (!bytes)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    Statics *statics = vgpu_read_statics(image);
    if (!statics) {
        snprintf(log, room, "the image has no relocations: -ffunction-sections -Wl,--emit-relocs");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    return load_object(context, image, bytes, statics, module, log, room);
}

void vgpu_unload_module(struct CUmod_st *m)
{
    struct CUmod_st **at = &modules;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    for (int k = 0; k < m->count; k++)
        free(m->functions[k]);
    free(m->functions);
    vgpu_free_cells(&m->dynamic_cells);
    vgpu_free_cells(&m->static_cells);
    vgpu_free_statics(m->statics);
    dlclose(m->handle);
    close(m->file);
    free(m);
}

/* what translated PTX says of a function: "shared", bytes of static shared memory; "threads", of a block at most, 0: any */
static unsigned told(const struct CUmod_st *m, const char *what, const char *name)
{
    char symbol[1024];
    snprintf(symbol, sizeof symbol, "mgpu_%s_%s", what, name);
    const unsigned *value = dlsym(m->handle, symbol);
    return value ? *value : 0;
}

CUresult vgpu_find_function(struct CUmod_st *m, const char *name, CUfunction *function)
{
    char symbol[1024];
    for (int k = 0; k < m->count; k++)
        if (strcmp(m->functions[k]->name, name) == 0) {
            *function = m->functions[k];
            return CUDA_SUCCESS;
        }
    snprintf(symbol, sizeof symbol, "mgpu_entry_%s", name);
    void *entry = dlsym(m->handle, symbol);
    snprintf(symbol, sizeof symbol, "mgpu_params_%s", name);
    const unsigned *const *bytes = dlsym(m->handle, symbol);
    struct CUfunc_st *f = calloc(1, sizeof *f);
    if (!entry || !bytes || !f) {
        free(f);
        return CUDA_ERROR_NOT_FOUND;
    }
    size_t shared = m->statics ? vgpu_static_shared(m->statics, name) : told(m, "shared", name);
    unsigned threads = m->statics ? 0 : told(m, "threads", name);
    if (shared > SHARED_WITHOUT_ASKING) { /* as ptxas does */
        fprintf(stderr, "virtual GPU: kernel %s has %zu bytes of static shared memory, there can be %d\n", name, shared,
                SHARED_WITHOUT_ASKING);
        free(f);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    *f = (struct CUfunc_st){.module = m,
                            .bytes = *bytes,
                            .static_shared = shared,
                            .most_shared = SHARED_WITHOUT_ASKING - shared,
                            .most_threads = threads ? threads : MGPU_VGPU_THREADS,
                            .registers = vgpu_registers(name),
                            .name = vgpu_keep(name)};
    memcpy(&f->run, &entry, sizeof entry);
    while (f->bytes[f->parameters])
        f->parameters++;
    if (vgpu_parameter_bytes(f) > MOST_PARAMETERS) {
        fprintf(stderr, "virtual GPU: kernel %s has %zu bytes of parameters, there can be %d\n", name, vgpu_parameter_bytes(f),
                MOST_PARAMETERS);
        free(f);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    m->functions = realloc(m->functions, (size_t)(m->count + 1) * sizeof *m->functions);
    m->functions[m->count++] = *function = f;
    return CUDA_SUCCESS;
}

/* ---- signals: what a kernel does that the processor refuses */

static struct {
    Launch *launch;
    Op *op;
    pthread_t thread;
} running;

static void refuse(int number, siginfo_t *info, void *context)
{
    (void)context;
    Launch *l = running.launch;
    if (!l || !pthread_equal(running.thread, pthread_self())) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    char where[200], by[160];
    Actor me = vgpu_actor(running.op);
    vgpu_describe((uintptr_t)info->si_addr, where, sizeof where);
    vgpu_violation(running.op->work.device, number == SIGFPE ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ILLEGAL_ADDRESS,
                   number == SIGFPE ? "arithmetic" : "bounds", "%s, block %llu, thread %u: %s", vgpu_name(&me, by, sizeof by),
                   (unsigned long long)l->now->block, l->now->thread,
                   number == SIGFPE ? "a whole number is divided by zero" : where);
    l->leave();
}

typedef struct Guard {
    struct sigaction before[3];
    stack_t stack;
} Guard;
static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE};

static void guard(Guard *g)
{
    static _Thread_local char *memory;
    if (!memory)
        memory = malloc(SIGNAL_STACK);
    stack_t mine = {.ss_sp = memory, .ss_size = SIGNAL_STACK};
    sigaltstack(&mine, &g->stack);
    struct sigaction action = {.sa_sigaction = refuse, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    for (int k = 0; k < 3; k++)
        sigaction(SIGNALS[k], &action, &g->before[k]);
}

static void unguard(const Guard *g)
{
    for (int k = 0; k < 3; k++)
        sigaction(SIGNALS[k], &g->before[k], NULL);
    sigaltstack(&g->stack, NULL);
}

/* ---- running */

static void report(Launch *l, const char *kind, const char *text)
{
    Actor me = vgpu_actor(running.op);
    char by[160];
    (void)l;
    vgpu_violation(running.op->work.device, CUDA_ERROR_LAUNCH_FAILED, kind, "%s: %s", vgpu_name(&me, by, sizeof by), text);
}

bool vgpu_run_kernel(Op *op)
{
    const KernelCall *call = &op->work.call;
    const struct CUfunc_st *f = call->function;
    void *params[256];
    size_t at = 0;
    int error = op->again ? 0 : vgpu_kernel_fault(f->name, op); /* begun again, it is the same run */
    if (error == VGPU_HANGS)
        return false;
    if (error) {
        op->work.device->failed = error;
        return true;
    }
    for (int k = 0; k < f->parameters && k < 256; k++) {
        params[k] = call->values + at;
        at += (f->bytes[k] + 7u) / 8 * 8;
    }
    Launch l = {.name = f->name,
                .shared_bytes = call->shared_bytes,
                .params = params,
                .report = report,
                .seed = vgpu_machine.order == ORDER_RANDOM ? vgpu_random() | 1 : 0,
                .dependent = call->dependent,
                .again = op->again};
    memcpy(l.grid, call->grid, sizeof l.grid);
    memcpy(l.block, call->block, sizeof l.block);
    if (f->module->checked) {
        l.access = vgpu_check_access;
        l.begin_block = vgpu_begin_block;
        vgpu_begin_launch(op, &l);
    }
    bool counts = f->module->checked && !f->module->statics && vgpu_counts();
    if (counts && !vgpu_begin_count(op, &l))
        return true;
    Guard g;
    guard(&g);
    running.launch = &l;
    running.op = op;
    running.thread = pthread_self();
    int failed = f->run(&l);
    running.launch = NULL;
    unguard(&g);
    if (counts)
        vgpu_end_count();
    op->again = failed ? 0 : l.again;
    if (failed && !vgpu_leaves_out() && !op->work.device->failed)
        op->work.device->failed = CUDA_ERROR_LAUNCH_FAILED;
    return true;
}

/* by addr2line, if there is one */
void vgpu_place(const void *place, char *text, size_t room)
{
    enum { LINES = 1 << 24 };
    snprintf(text, room, "somewhere");
    if ((uintptr_t)place < LINES) /* of translated PTX */
        snprintf(text, room, "line %zu of the PTX", (size_t)(uintptr_t)place);
    for (const struct CUmod_st *m = modules; m; m = m->next) {
        if ((uintptr_t)place < m->begin || (uintptr_t)place >= m->end)
            continue;
        char command[200], line[256] = "";
        snprintf(command, sizeof command, "addr2line -s -e %s %#zx 2>/dev/null", m->path,
                 (size_t)((uintptr_t)place - m->base - 1));
        FILE *p = popen(command, "r");
        if (p && fgets(line, sizeof line, p) && line[0] != '?')
            snprintf(text, room, "%.*s", (int)strcspn(line, " \n"), line);
        else
            snprintf(text, room, "%#zx", (size_t)((uintptr_t)place - m->base));
        if (p)
            pclose(p);
    }
}
