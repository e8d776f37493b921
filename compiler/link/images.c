/* images.c: compile a program's GPU kernels to images, one for each architecture and unit of CUDA C. NVRTC compiles them, and the
 * system's C++ compiler those for the virtual GPU; as many run at a time as there are cores, the longest first. Images that the
 * cache holds are taken from there. PTX of the newest architecture is added to the cubins, for GPUs that come later. */
#include "compiler/base/c_text.h"
#include "compiler/ir/program.h"
#include "compiler/link/translation_units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What one run of a compiler makes. NVRTC makes PTX on its way to a cubin. */
typedef struct CompiledImage {
    const char *arch, *path;
    Digest key;
} CompiledImage;
typedef struct ImageJob {
    const TranslationUnit *unit;
    const char *text;
    CompiledImage image, ptx; /* path NULL: not wanted */
} ImageJob;

static bool is_checked(const char *arch) { return strcmp(arch, "vgpu-check") == 0; }
static bool is_virtual(const char *arch) { return strcmp(arch, "vgpu") == 0 || is_checked(arch); }

/* An architecture, and that of the PTX that goes with it. cubin false: only PTX is made. */
typedef struct Arch {
    const char *name, *ptx;
    bool cubin;
} Arch;

/* Reads a list of architectures: "sm_80,sm_90" -> sm_80, and sm_90 with compute_90. PTX for sm_90a would run on no other GPU, so
 * compute_90 is then added on its own. A list that names a compute_NN gets the PTX it names and no other. */
static Arch *architectures(const char *list, int *count)
{
    Arch *archs = NULL;
    int newest = 0, plain = -1;
    bool listed = false;
    *count = 0;
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ","), digits = strcspn(at, "0123456789,");
        char *end;
        int number = (int)strtol(at + digits, &end, 10);
        bool is_plain = end == at + length, is_ptx = strncmp(at, "compute_", 8) == 0;
        const char *name = copy_text(at, length);
        listed = listed || is_ptx;
        if (number > newest || (number == newest && is_plain))
            plain = is_plain && number ? *count : -1;
        newest = number > newest ? number : newest;
        APPEND(archs, *count, ((Arch){name, is_ptx ? name : NULL, !is_ptx}));
        at += length;
        at += *at == ',';
    }
    const char *ptx = format("compute_%d", newest);
    if (listed)
        return archs;
    if (plain >= 0)
        archs[plain].ptx = ptx;
    else if (newest)
        APPEND(archs, *count, ((Arch){ptx, ptx, false}));
    return archs;
}

/* Returns what NVRTC compiles the unit for. Compute capability 9.0 has one GPU only; so where kernels use its own instructions,
 * an image for sm_90 is one for sm_90a, and PTX stays general for later GPUs. NVRTC supports this since CUDA 12.0. */
static const char *compiled_for(const TranslationUnit *unit, const char *arch)
{
    return strcmp(arch, "sm_90") == 0 && unit->warpgroups && nvrtc_version() >= 12000 ? "sm_90a" : arch;
}

/* docs/vgpu.md explains them */
static const char *const VIRTUAL_FLAGS[] = {
    "-x",
    "c++",
    "-std=c++17",
    "-O1",
    "-march=native",
    "-DMGPU_VGPU",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-math-errno",
    "-ffp-contract=fast",
    "-fexpensive-optimizations", /* as NVRTC does; gcc contracts nothing at -O1 without the second */
    "-ffunction-sections",
    "-Wl,--emit-relocs"}; /* so that the virtual GPU can count static shared memory */
static const char *const CHECKED_FLAGS[] = {"-g1", "-fsanitize=thread,bounds,alignment,shift,integer-divide-by-zero",
                                            "-nostdlib"};

/* Hashes all that images depend on besides sources and architectures. */
static Digest identity(const Compiler *virtual, const char *home)
{
    Sha256 h = mgpu_sha256_begin();
    if (virtual) {
        mgpu_sha256_add(&h, virtual->identity.bytes, sizeof virtual->identity.bytes);
        for (int i = 0; i < COUNT(VIRTUAL_FLAGS); i++)
            mgpu_sha256_add_text(&h, VIRTUAL_FLAGS[i]);
        for (int i = 0; i < virtual->kernel_flags.count; i++)
            mgpu_sha256_add_text(&h, virtual->kernel_flags.list[i]);
        for (int i = 0; i < COUNT(CHECKED_FLAGS); i++)
            mgpu_sha256_add_text(&h, CHECKED_FLAGS[i]);
    } else {
        nvrtc_identity(&h);
        add_headers(&h, home);
    }
    return mgpu_sha256_end(&h);
}

static Digest key_of(const TranslationUnit *unit, const char *arch, const Digest *identity)
{
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add_text(&h, "mgpuc image 1");
    mgpu_sha256_add(&h, identity->bytes, sizeof identity->bytes);
    mgpu_sha256_add_text(&h, arch);
    mgpu_sha256_add(&h, text_of(&unit->text), unit->text.length);
    return mgpu_sha256_end(&h);
}

static Arguments command_of(const ImageJob *j, const Compiler *virtual, const char *home)
{
    Arguments a = {0};
    const char *arch = j->image.arch ? j->image.arch : j->ptx.arch;
    if (is_virtual(arch)) {
        for (int i = 0; i < virtual->programs; i++)
            add_argument(&a, virtual->words.list[i]);
        for (int i = 0; i < COUNT(VIRTUAL_FLAGS); i++)
            add_argument(&a, VIRTUAL_FLAGS[i]);
        add_arguments(&a, &virtual->kernel_flags);
        for (int i = 0; i < COUNT(CHECKED_FLAGS) && is_checked(arch); i++)
            add_argument(&a, CHECKED_FLAGS[i]);
        /* after our flags, so that CXX="c++ -O0" has an effect */
        for (int i = virtual->programs; i < virtual->words.count; i++)
            add_argument(&a, virtual->words.list[i]);
        const char *rest[] = {virtual->include, j->text, "-o", j->image.path, "-lm", "-lc"};
        for (int i = 0; i < COUNT(rest); i++)
            add_argument(&a, rest[i]);
        return a;
    }
    const char *words[] = {
        "/proc/self/exe", "--nvrtc", j->text, arch, home, j->image.path ? j->image.path : "-", j->ptx.path ? j->ptx.path : "-"};
    for (int i = 0; i < COUNT(words); i++)
        add_argument(&a, words[i]);
    return a;
}

static int longest_first(const void *a, const void *b)
{
    const ImageJob *x = a, *y = b;
    return x->unit->cost != y->unit->cost ? (x->unit->cost < y->unit->cost ? 1 : -1) : strcmp(x->text, y->text);
}

typedef struct ImageWork {
    Cache *cache;
    const char *folder;
    Images images;
} ImageWork;

/* true: the cache has it */
static bool fetch(ImageWork *w, const TranslationUnit *unit, int number, const char *arch, const Digest *identity,
                  CompiledImage *image)
{
    const char *own = compiled_for(unit, arch);
    *image = (CompiledImage){own, format("%s/%d.%s", w->folder, number, arch), key_of(unit, own, identity)};
    temporary_add(image->path);
    add_argument(&w->images.files, image->path);
    add_argument(&w->images.archs, arch);
    return cache_fetch(w->cache, &image->key, image->path);
}

bool has_real_images(const Program *p)
{
    int count;
    const Arch *archs = architectures(p->options->arch, &count);
    for (int a = 0; a < count; a++)
        if (!is_virtual(archs[a].name))
            return true;
    return false;
}

void check_images(const Program *p)
{
    int count;
    const Arch *archs = architectures(p->options->arch, &count);
    for (int a = 0; a < count; a++)
        if (!is_virtual(archs[a].name))
            nvrtc_check(archs[a].name);
    if (has_real_images(p))
        toolkit_compare(nvrtc_version());
}

static Compiler virtual_compiler(const char *cxx, const char *arch, const char *home, const char *folder, Cache *cache)
{
    if (access(format("%s/mgpu_vgpu.h", home), R_OK) != 0)
        fail(
            3,
            "--arch %s: the virtual GPU comes with the sources of mgpuc and is not installed; build them, and run that mgpuc (docs/vgpu.md)",
            arch);
    Compiler compiler = find_compiler(cxx, true, home);
    ask_programs(&compiler, cache, folder);
    ask_flags(&compiler, cache, folder);
    return compiler;
}

Images make_images(const Program *p, const char *home, const char *folder, Cache *cache, int at_a_time)
{
    TranslationUnit *units;
    int count, arch_count, missing = 0;
    const Arch *archs = architectures(p->options->arch, &arch_count);
    bool all_virtual = true;
    for (int a = 0; a < arch_count; a++)
        all_virtual = all_virtual && is_virtual(archs[a].name);
    make_gpu_units(p, all_virtual, &units, &count);
    ImageJob *todo = NEW_ARRAY(ImageJob, 2 * arch_count * count);
    Compiler compiler = {0};
    Digest who[2];
    bool known[2] = {false, false};
    ImageWork work = {.cache = cache, .folder = folder};
    for (int a = 0; a < arch_count; a++) {
        bool virtual = is_virtual(archs[a].name);
        if (!known[virtual]) {
            if (virtual)
                compiler = virtual_compiler(p->options->cxx, archs[a].name, home, folder, cache);
            who[virtual] = identity(virtual ? &compiler : NULL, home);
            known[virtual] = true;
        }
        for (int i = 0; i < count; i++) {
            ImageJob j = {.unit = &units[i], .text = format("%s/%d.cu", folder, i)};
            bool code = !archs[a].cubin || fetch(&work, &units[i], i, archs[a].name, &who[virtual], &j.image);
            bool ptx = !archs[a].ptx || fetch(&work, &units[i], i, archs[a].ptx, &who[virtual], &j.ptx);
            if (code && ptx)
                continue;
            temporary_add(j.text);
            write_text(j.text, &units[i].text);
            if (code)
                j.image = (CompiledImage){0};
            if (ptx)
                j.ptx = (CompiledImage){0};
            if (!code && !ptx && strcmp(j.image.arch, archs[a].name) != 0) { /* one run of NVRTC cannot make both */
                ImageJob own = j;
                own.ptx = j.image = (CompiledImage){0};
                todo[missing++] = own;
            }
            todo[missing++] = j;
        }
    }
    qsort(todo, (size_t)missing, sizeof *todo, longest_first);
    Arguments *commands = NEW_ARRAY(Arguments, missing);
    for (int i = 0; i < missing; i++)
        commands[i] = command_of(&todo[i], &compiler, home);
    int failed = run_tools(commands, missing, at_a_time);
    if (failed >= 0)
        work.images.failed = todo[failed].image.arch ? todo[failed].image.arch : todo[failed].ptx.arch;
    for (int i = 0; i < missing && failed < 0; i++)
        for (int k = 0; k < 2; k++) {
            const CompiledImage *made = k ? &todo[i].ptx : &todo[i].image;
            if (made->path)
                cache_store(cache, &made->key, made->path);
            work.images.compiled += made->path != NULL;
        }
    return work.images;
}

const char *make_image(const char *text, const char *arch)
{
    const char *home = runtime_folder(), *folder = temporary_folder();
    bool virtual = is_virtual(arch);
    Cache cache = cache_open();
    Compiler compiler = {0};
    TranslationUnit unit = {.cost = 1};
    text_add(&unit.text, "%s", text);
    if (virtual)
        compiler = virtual_compiler(getenv("CXX"), arch, home, folder, &cache);
    Digest who = identity(virtual ? &compiler : NULL, home);
    ImageJob j = {.unit = &unit,
                  .text = format("%s/text.cu", folder),
                  .image = {arch, format("%s/image", folder), key_of(&unit, arch, &who)}};
    temporary_add(j.text);
    temporary_add(j.image.path);
    if (!cache_fetch(&cache, &j.image.key, j.image.path)) {
        write_text(j.text, &unit.text);
        Arguments command = command_of(&j, &compiler, home);
        if (run_tools(&command, 1, 1) >= 0)
            return NULL;
        cache_store(&cache, &j.image.key, j.image.path);
    }
    cache_close(&cache);
    return j.image.path;
}

void images_text(const Images *images, Text *t)
{
    text_add(t, "#include \"mgpu.h\"\n");
    for (int i = 0; i < images->files.count; i++)
        text_add(t, "__asm__(%s);\nextern const uint8_t mgpu_image_%d[];\n", /* an assembler string, with the escapes of C */
                 c_string(format(".section .rodata\n.balign 64\nmgpu_image_%d:\n.incbin %s\n.byte 0\n.text\n", i,
                                 c_string(images->files.list[i]))),
                 i);
    text_add(t, "const mgpu_image mgpu_images[] = {\n");
    for (int i = 0; i < images->files.count; i++) {
        struct stat s;
        int cuda = is_virtual(images->archs.list[i]) ? 0 : nvrtc_version();
        if (stat(images->files.list[i], &s))
            fail(3, "%s cannot be read: %s", images->files.list[i], strerror(errno));
        text_add(t, "    {%s, mgpu_image_%d, %lld, %d},\n", c_string(images->archs.list[i]), i, (long long)s.st_size, cuda);
    }
    text_add(t, "    {0},\n};\n");
}

/* Prints lines such as: ARCH FUNCTION registers N shared STATIC + DYNAMIC local N threads N  ; line of the model */
void images_print(const Program *p, const Images *images, Text *t)
{
    int count;
    const GpuFunction *functions = gpu_functions(p, &count);
    for (int i = 0; i < images->files.count; i++) {
        size_t length;
        const char *bytes = read_file(images->files.list[i], &length);
        for (int k = 0; k < count && bytes; k++) {
            CubinFunction f;
            if (!cubin_function(bytes, length, functions[k].name, &f))
                continue;
            const Place *user = users_place(functions[k].at);
            text_add(t, "%s %s registers %d shared %d + %d local %d threads %d", images->archs.list[i], functions[k].name,
                     f.registers, f.shared_bytes, functions[k].shared_bytes, f.local_bytes, functions[k].threads);
            if (user && user->source)
                text_add(t, "  ; %s:%d", user->source->file, user->line);
            text_add(t, "\n");
        }
    }
}
