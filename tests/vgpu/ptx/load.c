/* load.c: PTX -> a shared object, which module.c loads as an image: translated, compiled by the C compiler ($CC, else cc) and
 * kept in mgpuc's cache, under the digest of text, headers and compiler. */
#include "tests/vgpu/ptx/ptx.h"
#include "runtime/base/sha256.h"
#include "runtime/cuda/driver.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* -ffp-contract=off: PTX says itself what is fused. Wrapping, aliases: as in PTX */
static const char FLAGS[] =
    "-std=gnu11 -O1 -w -fPIC -fvisibility=hidden -fno-strict-aliasing -fwrapv -fno-math-errno -ffp-contract=off";
static const char *const HEADERS[] = {"tests/vgpu/ptx/device.h", "tests/vgpu/ptx/engine.h", "tests/vgpu/ptx/numbers.h",
                                      "tests/vgpu/include/mgpu_vgpu_launch.h"};

bool ptx_is_text(const void *image)
{
    const char *at = image;
    for (;;) { /* comments and blanks, then .version */
        at += strspn(at, " \t\r\n");
        if (at[0] != '/' || at[1] != '/')
            return strncmp(at, ".version", 8) == 0;
        at += strcspn(at, "\n");
    }
}

/* ---- files */

static char *read_whole(const char *path, size_t *bytes)
{
    struct stat s;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *text = NULL;
    if (file >= 0 && fstat(file, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
        (text = malloc((size_t)s.st_size + 1))) {
        ssize_t length = read(file, text, (size_t)s.st_size);
        *bytes = length < 0 ? 0 : (size_t)length;
        text[*bytes] = 0;
    }
    if (file >= 0)
        close(file);
    return text;
}

static bool write_whole(const char *path, const void *bytes, size_t length, const void *more, size_t more_length)
{
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(bytes, 1, length, f) == length && fwrite(more, 1, more_length, f) == more_length;
    return f && fclose(f) == 0 && good;
}

/* ---- the cache: its files as compiler/link/cache.c has them, an object and then the digest of key and object */

typedef struct Place {
    char folder[4096 - 100], path[4096];
    Digest key;
} Place; /* folder "": there is no cache */

static Digest seal_of(const Place *p, const void *object, size_t length)
{
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add(&h, p->key.bytes, sizeof p->key.bytes);
    mgpu_sha256_add(&h, object, length);
    return mgpu_sha256_end(&h);
}

static const char *compiler(void)
{
    const char *cc = getenv("CC");
    return cc && *cc ? cc : "cc";
}

static Place place_of(const char *text, bool checked)
{
    Place p = {.folder = ""};
    char name[65];
    const char *folder = getenv("MGPUC_CACHE");
    Sha256 h = mgpu_sha256_begin();
    mgpu_sha256_add_text(&h, text);
    mgpu_sha256_add_text(&h, compiler());
    mgpu_sha256_add_text(&h, FLAGS);
    mgpu_sha256_add_text(&h, checked ? "checked" : "");
    for (size_t k = 0; k < sizeof HEADERS / sizeof *HEADERS; k++) {
        char path[4096];
        size_t bytes = 0;
        snprintf(path, sizeof path, "%s/%s", MGPU_SOURCE, HEADERS[k]);
        char *header = read_whole(path, &bytes);
        mgpu_sha256_add_text(&h, header ? header : "");
        free(header);
    }
    p.key = mgpu_sha256_end(&h);
    mgpu_digest_text(&p.key, sizeof p.key.bytes, name);
    if (!folder || !*folder || strcmp(folder, "off") == 0 || strlen(folder) > sizeof p.folder - 10)
        return p;
    snprintf(p.folder, sizeof p.folder, "%s/%.2s", folder, name);
    snprintf(p.path, sizeof p.path, "%s/%s", p.folder, name + 2);
    return p;
}

static void *fetch(const Place *p, size_t *bytes)
{
    char *object = p->folder[0] ? read_whole(p->path, bytes) : NULL;
    Digest seal;
    if (object && *bytes > sizeof seal) {
        *bytes -= sizeof seal;
        seal = seal_of(p, object, *bytes);
        if (memcmp(seal.bytes, object + *bytes, sizeof seal) == 0)
            return object;
    }
    free(object);
    return NULL;
}

static void store(const Place *p, const void *object, size_t bytes)
{
    char path[4096 + 30];
    Digest seal = seal_of(p, object, bytes);
    if (!p->folder[0])
        return;
    mkdir(getenv("MGPUC_CACHE"), 0777); /* it may be there, as may its folder */
    mkdir(p->folder, 0777);
    snprintf(path, sizeof path, "%s.%d", p->path, (int)getpid());
    if (!write_whole(path, object, bytes, &seal, sizeof seal) || rename(path, p->path) != 0)
        unlink(path);
}

/* ---- compiling */

static void *compile(const PtxText *c, bool checked, size_t *bytes, char *log, size_t room)
{
    enum { LONGEST = 200 };
    char folder[LONGEST + 20], source[LONGEST + 40], object[LONGEST + 40], errors[LONGEST + 40], part[LONGEST + 40],
        command[2 * 4096];
    const char *given = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/vgpu-ptx-XXXXXX", given && *given && strlen(given) < LONGEST ? given : "/tmp");
    if (!mkdtemp(folder)) {
        snprintf(log, room, "%s: no folder for the kernels", folder);
        return NULL;
    }
    snprintf(source, sizeof source, "%s/kernels.c", folder);
    snprintf(object, sizeof object, "%s/kernels.so", folder);
    snprintf(part, sizeof part, "%s/kernels.o", folder);
    snprintf(errors, sizeof errors, "%s/errors", folder);
    snprintf(command, sizeof command, "{ %s %s %s -I %s -c %s -o %s && %s -shared %s -o %s -lm; } 2>%s", compiler(), FLAGS,
             checked ? "-DPTX_CHECKED" : "", MGPU_SOURCE, source, part, compiler(), part, object, errors);
    void *image = NULL;
    if (!write_whole(source, c->data, c->length, NULL, 0))
        snprintf(log, room, "%s cannot be written", source);
    else if (system(command) != 0 || !(image = read_whole(object, bytes))) {
        size_t length = 0;
        char *why = read_whole(errors, &length);
        snprintf(log, room, "the C compiler does not take the translated kernels: %s", why ? why : command);
        free(why);
    }
    if (!getenv("MGPU_KEEP")) {
        unlink(source);
        unlink(part);
        unlink(object);
        unlink(errors);
        rmdir(folder);
    }
    return image;
}

/* ---- what a driver says before it compiles PTX */

/* the first CUDA with that version of PTX: table of the PTX ISA manual, "Release Notes" */
static int cuda_of(int version)
{
    static const struct {
        int ptx, cuda;
    } releases[] = {{70, 11000}, {71, 11010}, {72, 11020}, {73, 11030}, {74, 11040}, {75, 11050}, {76, 11060},
                    {77, 11070}, {78, 11080}, {80, 12000}, {81, 12010}, {82, 12020}, {83, 12030}, {84, 12040},
                    {85, 12050}, {86, 12070}, {87, 12080}, {88, 12090}, {90, 13000}};
    for (size_t k = 0; k < sizeof releases / sizeof *releases; k++)
        if (version <= releases[k].ptx)
            return releases[k].cuda;
    return 1 << 20;
}

static CUresult refuses(const Module *m, int capability, int version, char *log, size_t room)
{
    if (cuda_of(m->version) > version) {
        snprintf(log, room, "PTX of version %d.%d is for CUDA %d.%d and newer", m->version / 10, m->version % 10,
                 cuda_of(m->version) / 1000, cuda_of(m->version) / 10 % 100);
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    if (m->target > capability || (m->own && m->target != capability && capability != PTX_ANY)) {
        snprintf(log, room, "PTX for sm_%d%s does not run on a GPU of compute capability %d.%d", m->target, m->own ? "a" : "",
                 capability / 10, capability % 10);
        return CUDA_ERROR_INVALID_PTX;
    }
    return CUDA_SUCCESS;
}

void *ptx_load(const char *text, int capability, int version, bool checked, size_t *bytes, int *error, char *log, size_t room)
{
    Ptx ptx = {0};
    PtxText functions = {0}, c = {0};
    void *volatile image = NULL;
    *error = CUDA_ERROR_INVALID_PTX;
    if (setjmp(ptx.end) == 0) {
        /* behind .version and .target: all that is asked of what the cache has */
        const char *head = strstr(text, "\n.address_size");
        CUresult refused = refuses(ptx_parse(&ptx, ptx_scan(&ptx, text, head ? (size_t)(head - text) : strlen(text))), capability,
                                   version, log, room);
        if (refused)
            *error = refused;
        else {
            Place place = place_of(text, checked);
            image = fetch(&place, bytes);
            if (!image) {
                ptx_print(&ptx, ptx_parse(&ptx, ptx_scan(&ptx, text, strlen(text))), &functions, &c);
                image = compile(&c, checked, bytes, log, room);
                if (image)
                    store(&place, image, *bytes);
            }
        }
    } else
        snprintf(log, room, "%s", ptx.wrong);
    ptx_free(&ptx);
    free(functions.data);
    free(c.data);
    return image;
}
