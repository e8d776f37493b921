/* hdf5.c: reads HDF5 files (Keras' .weights.h5 and .h5, and model.weights.h5 in .keras) with libhdf5, which is opened for the
 * first such file.
 *
 * The library is large and the files are not trusted, so a child process runs it, which may only compute, allocate memory and
 * write to one file in memory (seccomp). If it fails, the parent prints a message. The child writes what it has read as
 * safetensors, and the reader of safetensors checks that as it checks any file. The name of a data set is its path with dots:
 * a/b/kernel is "a.b.kernel".
 *
 * Keras numbers the layers of each class and their variables: layers/conv2d_7/vars/0. Since version 3.6 its files also store the
 * name of a layer. If that is "stem", the data set is called "stem.kernel". Older files have stem/stem/kernel:0, which gets the
 * same name. If two data sets would have the same name, all keep their paths. */
#include "runtime/base/base.h"
#include "runtime/base/context.h"
#include "runtime/weights/formats.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the functions of the library that are used, as declared in its headers 1.10 to 1.14 */
typedef int64_t Id; /* hid_t */
typedef struct GroupInfo {
    int storage;
    unsigned long long links;
    int64_t order;
    bool mounted;
} GroupInfo;
enum { IS_GROUP = 2, IS_DATASET = 5, BY_NAME = 0, INCREASING = 0, CLASS_INTEGER = 0, CLASS_FLOAT = 1, UNSIGNED = 0, DEFAULT = 0 };
static struct Library {
    int (*open)(void);
    int (*set_errors)(Id, void *, void *);
    Id (*create_list)(Id);
    int (*set_memory)(Id, size_t increment, bool backing);
    int (*set_image)(Id, void *, size_t);
    Id (*open_file)(const char *, unsigned flags, Id list);
    Id (*open_object)(Id, const char *, Id);
    int (*kind)(Id);
    int (*group_info)(Id, GroupInfo *);
    ssize_t (*link_name)(Id, const char *group, int index, int order, unsigned long long i, char *, size_t, Id);
    Id (*space)(Id);
    int (*rank)(Id);
    int (*extents)(Id, unsigned long long *, unsigned long long *most);
    Id (*type)(Id);
    int (*type_class)(Id), (*type_sign)(Id);
    size_t (*type_bytes)(Id);
    int (*read)(Id, Id memory, Id, Id, Id, void *);
    Id (*open_note)(Id, const char *name, Id), (*note_type)(Id);
    int (*is_text)(Id), (*read_note)(Id, Id memory, void *);
    const Id *file_access, *f32, *f64, *i8, *i16, *i32, *i64, *u8, *u16, *u32;
} h5;
static const struct Symbol {
    const char *name;
    void *at;
} SYMBOLS[] = {{"H5open", &h5.open},
               {"H5Eset_auto2", &h5.set_errors},
               {"H5Pcreate", &h5.create_list},
               {"H5Pset_fapl_core", &h5.set_memory},
               {"H5Pset_file_image", &h5.set_image},
               {"H5Fopen", &h5.open_file},
               {"H5Oopen", &h5.open_object},
               {"H5Iget_type", &h5.kind},
               {"H5Gget_info", &h5.group_info},
               {"H5Lget_name_by_idx", &h5.link_name},
               {"H5Dget_space", &h5.space},
               {"H5Sget_simple_extent_ndims", &h5.rank},
               {"H5Sget_simple_extent_dims", &h5.extents},
               {"H5Dget_type", &h5.type},
               {"H5Tget_class", &h5.type_class},
               {"H5Tget_sign", &h5.type_sign},
               {"H5Tget_size", &h5.type_bytes},
               {"H5Dread", &h5.read},
               {"H5Aopen", &h5.open_note},
               {"H5Aget_type", &h5.note_type},
               {"H5Tis_variable_str", &h5.is_text},
               {"H5Aread", &h5.read_note},
               {"H5P_CLS_FILE_ACCESS_ID_g", &h5.file_access},
               {"H5T_NATIVE_FLOAT_g", &h5.f32},
               {"H5T_NATIVE_DOUBLE_g", &h5.f64},
               {"H5T_NATIVE_INT8_g", &h5.i8},
               {"H5T_NATIVE_INT16_g", &h5.i16},
               {"H5T_NATIVE_INT32_g", &h5.i32},
               {"H5T_NATIVE_INT64_g", &h5.i64},
               {"H5T_NATIVE_UINT8_g", &h5.u8},
               {"H5T_NATIVE_UINT16_g", &h5.u16},
               {"H5T_NATIVE_UINT32_g", &h5.u32}};

/* Returns the library or NULL. *missing is a function that it lacks, or NULL. */
static void *find_library(const char **missing)
{
    static const char *const NAMES[] = {"libhdf5.so.310",        "libhdf5.so.200", "libhdf5.so.103",   "libhdf5_serial.so.310",
                                        "libhdf5_serial.so.103", "libhdf5.so",     "libhdf5_serial.so"};
    const char *named = getenv("MGPU_HDF5");
    void *handle = h5.open ? (void *)&h5 : named && *named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (int i = 0; i < MGPU_COUNT(NAMES) && !handle && !(named && *named); i++)
        handle = dlopen(NAMES[i], RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < MGPU_COUNT(SYMBOLS) && handle && handle != &h5 && !*missing; i++) {
        void *symbol = dlsym(handle, SYMBOLS[i].name);
        *missing = symbol ? NULL : SYMBOLS[i].name;
        memcpy(SYMBOLS[i].at, &symbol, sizeof symbol);
    }
    return handle;
}

static void open_library(const char *path)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *missing = NULL;
    pthread_mutex_lock(&lock);
    void *handle = find_library(&missing);
    pthread_mutex_unlock(&lock);
    if (!handle)
        mgpu_fail(MGPU_MACHINE_FAILED,
                  "%s is an HDF5 file, and libhdf5 is not there to read it (package libhdf5-103-1 or libhdf5; the variable "
                  "MGPU_HDF5 names its file)",
                  path);
    if (missing)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s: libhdf5 lacks %s; versions 1.10 to 1.14 can be used", path, missing);
}

/* ---- the child */
enum { DEEPEST = 32, MOST = 100000, LONGEST_NAME = 1024 };
typedef struct Child {
    const TensorBytes *bytes;
    int out; /* receives the tensors or an error message */
    SavedTensor *tensors;
    Id *set;
    int count, groups;
    bool paths; /* use paths as names and ignore names of layers */
} Child;

static _Noreturn void give_up(const Child *c, const char *what)
{
    ssize_t done = pwrite(c->out, what, strlen(what), 0);
    _exit(done < 0 ? 3 : 2);
}

static void allow_nothing_else(const Child *c)
{
#if defined __x86_64__
    const uint32_t machine = AUDIT_ARCH_X86_64;
#elif defined __aarch64__
    const uint32_t machine = AUDIT_ARCH_AARCH64;
#else
#error "name the architecture of seccomp's filter"
#endif
    static const int CALLS[] = {SYS_mmap,       SYS_munmap,    SYS_mremap,        SYS_mprotect,       SYS_madvise,
                                SYS_brk,        SYS_futex,     SYS_write,         SYS_pwrite64,       SYS_exit,
                                SYS_exit_group, SYS_getrandom, SYS_clock_gettime, SYS_rt_sigprocmask, SYS_rt_sigreturn,
                                SYS_getpid,     SYS_gettid,    SYS_ftruncate,     SYS_sysinfo /* for qsort */};
    static const int NOT_THERE[] = {SYS_openat, SYS_getcwd, SYS_newfstatat,
                                    SYS_readlinkat}; /* these fail as if the file did not exist */
    enum { COUNT = MGPU_COUNT(CALLS), FILES = MGPU_COUNT(NOT_THERE) };
    struct sock_filter filter[4 + COUNT + FILES + 3];
    int n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, machine, 1, 0);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < COUNT; i++)
        filter[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)CALLS[i], (uint8_t)(COUNT - 1 - i + FILES + 1), 0);
    for (int i = 0; i < FILES; i++)
        filter[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)NOT_THERE[i], (uint8_t)(FILES - 1 - i + 2), 0);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOENT);
    struct sock_fprog program = {.len = (unsigned short)n, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        give_up(c, "the system does not let libhdf5 run without rights (seccomp), and it is not run with them");
}

static int type_of(Id type)
{
    int class = h5.type_class(type), bytes = (int)h5.type_bytes(type);
    bool is_unsigned = class == CLASS_INTEGER && h5.type_sign(type) == UNSIGNED;
    if (class == CLASS_FLOAT)
        return bytes == 8 ? MGPU_F64 : bytes <= 4 ? MGPU_F32 : -1; /* f16 is read as f32 */
    if (class != CLASS_INTEGER)
        return -1;
    return bytes == 1                   ? (is_unsigned ? MGPU_U8 : MGPU_I8)
           : bytes == 2                 ? (is_unsigned ? MGPU_U16 : MGPU_I16)
           : bytes == 4                 ? (is_unsigned ? MGPU_U32 : MGPU_I32)
           : bytes == 8 && !is_unsigned ? MGPU_I64
                                        : -1;
}

static Id memory_type(uint8_t dtype)
{
    const Id *const types[] = {
        [MGPU_F32] = h5.f32, [MGPU_F64] = h5.f64, [MGPU_I8] = h5.i8,   [MGPU_I16] = h5.i16, [MGPU_I32] = h5.i32,
        [MGPU_I64] = h5.i64, [MGPU_U8] = h5.u8,   [MGPU_U16] = h5.u16, [MGPU_U32] = h5.u32};
    return *types[dtype];
}

/* Adds a data set. Texts, compound types and more axes than tensors have are skipped. */
static void add_set(Child *c, Id set, const char *name)
{
    unsigned long long extent[32];
    Id space = h5.space(set);
    int rank = space < 0 ? -1 : h5.rank(space), dtype = type_of(h5.type(set));
    if (dtype < 0 || rank < 0 || rank > MGPU_MAX_RANK || h5.extents(space, extent, NULL) < 0)
        return;
    if (c->count == MOST)
        give_up(c, "it has more than 100,000 data sets");
    c->tensors = mgpu_resize(c->tensors, (size_t)(c->count + 1) * sizeof *c->tensors);
    c->set = mgpu_resize(c->set, (size_t)(c->count + 1) * sizeof *c->set);
    SavedTensor *t = &c->tensors[c->count];
    *t = (SavedTensor){.tensor = {mgpu_format("%s", name), (uint8_t)dtype, rank, {0}}};
    for (int i = 0; i < rank; i++)
        t->tensor.extent[i] = extent[i] > INT64_MAX ? INT64_MAX : (int64_t)extent[i];
    c->set[c->count++] = set;
}

/* Returns the name that Keras has stored for a layer, or NULL. */
static char *layer_name(Id layer)
{
    Id variables = h5.open_object(layer, "vars", DEFAULT), note = variables < 0 ? -1 : h5.open_note(variables, "name", DEFAULT);
    Id type = note < 0 ? -1 : h5.note_type(note);
    char *text = NULL;
    bool known = type >= 0 && h5.is_text(type) > 0 && h5.read_note(note, type, &text) >= 0 && text && *text;
    for (const char *at = text; known && *at; at++)
        known = (unsigned char)*at >= ' ' && at - text < LONGEST_NAME;
    return known ? text : NULL;
}

/* The role of a group in a Keras file. */
typedef enum GroupKind {
    PLAIN,
    LAYERS, /* contains the layers of a model */
    LAYER,  /* one of the layers */
    OWN,    /* contains the variables of a layer */
    OLD     /* a layer in a file of Keras 2 */
} GroupKind;

/* Returns the prefix of the names in a group. *kind is the outer group's kind before, and this group's kind after the call. */
static char *group_name(const Child *c, Id group, const char *prefix, const char *part, GroupKind *kind)
{
    GroupKind outer = *kind;
    const char *dot = strrchr(prefix, '.'), *stored = outer == LAYERS ? layer_name(group) : NULL;
    *kind = PLAIN;
    if (!c->paths && stored) {
        *kind = LAYER;
        part = stored;
    } else if (!c->paths && strcmp(part, "layers") == 0) {
        *kind = LAYERS;
        return mgpu_format("%s", prefix);
    } else if (outer == LAYER && strcmp(part, "vars") == 0) {
        *kind = OWN;
        return mgpu_format("%s", prefix);
    } else if (!c->paths && h5.open_note(group, "weight_names", DEFAULT) >= 0) {
        *kind = OLD;
    } else if (outer == OLD && strcmp(part, dot ? dot + 1 : prefix) == 0) {
        return mgpu_format("%s", prefix);
    } else if (outer == OLD && h5.open_object(group, dot ? dot + 1 : prefix, DEFAULT) >= 0) { /* a model that the layer is in */
        *kind = OLD;
        return mgpu_format("%s", prefix);
    }
    return mgpu_format("%s%s%s", prefix, *prefix ? "." : "", part);
}

/* Names variable `number` of a layer with `count` variables. The link (conv2d_7) contains its class. Returns NULL if the name is
 * unknown, as for a norm without a scale. */
static const char *variable_name(const char *link, const char *number, unsigned long long count)
{
    static const struct {
        const char *class, *names[4];
        unsigned least;
    } CLASSES[] = {{"dense", {"kernel", "bias"}, 1},
                   {"conv1d", {"kernel", "bias"}, 1},
                   {"conv2d", {"kernel", "bias"}, 1},
                   {"conv3d", {"kernel", "bias"}, 1},
                   {"conv2d_transpose", {"kernel", "bias"}, 1},
                   {"depthwise_conv2d", {"depthwise_kernel", "bias"}, 1},
                   {"separable_conv2d", {"depthwise_kernel", "pointwise_kernel", "bias"}, 2},
                   {"embedding", {"embeddings"}, 1},
                   {"layer_scale", {"gamma"}, 1},
                   {"layer_normalization", {"gamma", "beta"}, 2},
                   {"group_normalization", {"gamma", "beta"}, 2},
                   {"batch_normalization", {"gamma", "beta", "moving_mean", "moving_variance"}, 4}};
    size_t length = strlen(link), end = length;
    while (end > 0 && link[end - 1] >= '0' && link[end - 1] <= '9')
        end--;
    if (end > 1 && end < length && link[end - 1] == '_')
        length = end - 1;
    for (int i = 0; i < MGPU_COUNT(CLASSES); i++) {
        unsigned most = 0;
        while (most < MGPU_COUNT(CLASSES[i].names) && CLASSES[i].names[most])
            most++;
        bool fits = strlen(CLASSES[i].class) == length && strncmp(CLASSES[i].class, link, length) == 0;
        if (fits && count >= CLASSES[i].least && count <= most && *number >= '0' && *number < '0' + (int)most && !number[1])
            return CLASSES[i].names[*number - '0'];
    }
    return NULL;
}

/* Names a data set in a group. `link` is the name of the group, or for OWN that of the layer. */
static char *set_name(const Child *c, Id set, const char *prefix, const char *part, const char *link, GroupKind kind,
                      unsigned long long count)
{
    size_t length = strlen(part);
    int dtype = kind == OWN ? type_of(h5.type(set)) : -1; /* integers are quantized values, which have other names */
    const char *variable = dtype == MGPU_F32 || dtype == MGPU_F64 ? variable_name(link, part, count) : NULL;
    if (variable || kind == OWN)
        return variable ? mgpu_format("%s.%s", prefix, variable) : mgpu_format("%s.%s.%s", prefix, link, part);
    if (!c->paths && length > 2 && strcmp(part + length - 2, ":0") == 0) /* a suffix of TensorFlow's variables */
        length -= 2;
    if (!c->paths && kind != LAYER && count == 1 && strncasecmp(part, "variable", 8) == 0 &&
        strspn(part + 8, "_0123456789") == length - 8)
        return mgpu_format("%s.variable", prefix); /* without a name, and numbered in the whole model */
    return mgpu_format("%s%s%.*s", prefix, *prefix ? "." : "", (int)length, part);
}

static void walk(Child *c, Id group, const char *prefix, const char *link, GroupKind kind, int depth)
{
    GroupInfo info;
    if (++c->groups > MOST || depth == DEEPEST || h5.group_info(group, &info) < 0)
        give_up(c, "its groups hold themselves, or are too many");
    for (unsigned long long i = 0; i < info.links; i++) {
        char part[LONGEST_NAME];
        ssize_t length = h5.link_name(group, ".", BY_NAME, INCREASING, i, part, sizeof part, DEFAULT);
        Id object = length < 0 || length >= LONGEST_NAME ? -1 : h5.open_object(group, part, DEFAULT);
        if (object < 0)
            give_up(c, "libhdf5 cannot read what it links to; links to other files are not followed, or the file is damaged");
        GroupKind inner = kind;
        char *name = NULL;
        if (h5.kind(object) == IS_GROUP) {
            name = group_name(c, object, prefix, part, &inner);
            walk(c, object, name, inner == OWN ? link : part, inner, depth + 1);
        } else if (h5.kind(object) == IS_DATASET) {
            name = set_name(c, object, prefix, part, link, kind, info.links);
            add_set(c, object, name);
        }
        free(name);
    }
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Finds the data sets and their names; if two have the same name, uses paths. */
static void find_sets(Child *c, Id root)
{
    walk(c, root, "", "", PLAIN, 0);
    const char **names = mgpu_allocate((size_t)c->count + 1, sizeof *names);
    for (int i = 0; i < c->count; i++)
        names[i] = c->tensors[i].tensor.name;
    qsort(names, (size_t)c->count, sizeof *names, by_name);
    for (int i = 1; i < c->count && !c->paths; i++)
        c->paths = strcmp(names[i], names[i - 1]) == 0;
    free(names);
    if (c->paths) {
        c->count = c->groups = 0;
        walk(c, root, "", "", PLAIN, 0);
    }
}

static void write_all(const Child *c, const void *data, int64_t bytes)
{
    for (const uint8_t *at = data; bytes;) {
        ssize_t done = write(c->out, at, bytes < 1 << 30 ? (size_t)bytes : 1u << 30);
        if (done <= 0)
            give_up(c, "there is no memory for its tensors");
        at += done;
        bytes -= done;
    }
}

static void write_tensors(Child *c)
{
    int64_t total = 0;
    for (int i = 0; i < c->count; i++) {
        int64_t bytes = mgpu_dtype_bytes(c->tensors[i].tensor.dtype);
        for (int k = 0; k < c->tensors[i].tensor.rank; k++)
            if (__builtin_mul_overflow(bytes, c->tensors[i].tensor.extent[k], &bytes))
                give_up(c, "a data set in it has more than 2^63 bytes; the file is damaged");
        if (__builtin_add_overflow(total, bytes, &total))
            give_up(c, "its data sets have more than 2^63 bytes; the file is damaged");
    }
    if (!mgpu_believes_unpacked(c->bytes->bytes, total))
        give_up(c, "it would unpack to more than 250 times its size, as damaged or hostile files do");
    FileMetadata notes = {.step = -1};
    FileLayout layout = mgpu_lay_out(c->tensors, c->count, &notes);
    write_all(c, layout.header, layout.header_bytes);
    for (int k = 0; k < layout.count; k++) {
        int i = layout.order[k];
        int64_t bytes = layout.at[k + 1] - layout.at[k];
        void *data = mgpu_allocate((size_t)bytes + 1, 1);
        if (bytes && h5.read(c->set[i], memory_type(c->tensors[i].tensor.dtype), DEFAULT, DEFAULT, DEFAULT, data) < 0)
            give_up(c,
                    "libhdf5 cannot read a data set in it; the file is damaged, or it is packed by a filter that is not there");
        write_all(c, data, bytes);
        free(data);
    }
}

static _Noreturn void convert(Child *c)
{
    mgpu_context_none();
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    allow_nothing_else(c);
    Id list = h5.create_list(*h5.file_access);
    h5.set_errors(DEFAULT, NULL, NULL);
    if (h5.set_memory(list, 1 << 20, false) < 0 ||
        h5.set_image(list, (void *)(uintptr_t)c->bytes->data, (size_t)c->bytes->bytes) < 0)
        give_up(c, "there is no memory to read it");
    Id file = h5.open_file("weights", 0, list), root = file < 0 ? -1 : h5.open_object(file, "/", DEFAULT);
    if (root < 0)
        give_up(c, "libhdf5 cannot read it; the file is damaged");
    find_sets(c, root);
    write_tensors(c);
    _exit(0);
}

void mgpu_read_hdf5(TensorFile *file, const TensorBytes *b)
{
    Child c = {.bytes = b, .out = memfd_create("hdf5", MFD_CLOEXEC)};
    file->channels_last = true;
    open_library(b->path);
    if (c.out < 0 || h5.open() < 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s: libhdf5 does not start: %s", b->path, strerror(errno));
    pid_t child = fork();
    if (child < 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s: no process for libhdf5: %s", b->path, strerror(errno));
    if (!child)
        convert(&c);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
        char what[200] = "";
        ssize_t length = pread(c.out, what, sizeof what - 1, 0);
        what[length < 0 ? 0 : length] = 0;
        mgpu_broken_tensors(b->path, NULL, what);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        mgpu_fail(MGPU_BAD_INPUT, "%s: libhdf5 ended when it read this file, which is damaged or made to do harm: %s", b->path,
                  strsignal(WIFSIGNALED(status) ? WTERMSIG(status) : 0));
    TensorBytes tensors = mgpu_map_open(file, b->path, c.out);
    close(c.out);
    mgpu_read_safetensors(file, &tensors);
}
