/* resources.c: records the system resources of a context's threads until they are released, so that all can be released after an
 * error. The code that uses them needs no change: the linker's --wrap redirects its calls to these functions
 * (abi/mgpu_wrapped.h). Calls by threads without a context, and resources of the process (mgpu_context_apart), are passed
 * through.
 *
 * Memory is recorded in a hash set of addresses with open addressing, everything else in a list, since there is little of it. */
#include "runtime/library/resources.h"
#include "runtime/base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

/* In the order of release. TEXT: a stream of open_memstream. */
typedef enum ResourceKind { THREAD, GZIP, STREAM, TEXT, FOLDER, DESCRIPTOR, MAPPING, KINDS } ResourceKind;
/* The result of such a stream, which is not in the frame of its opener, since that may be gone. */
typedef struct Made {
    char *text;
    size_t length;
    char **to;
    size_t *to_length;
} Made;
typedef struct Resource {
    ResourceKind kind;
    uintptr_t key;
    size_t bytes;
    Made *made;
} Resource; /* bytes: of a mapping */
struct Resources {
    uintptr_t *set; /* 0: free; the size is a power of two */
    size_t capacity, count;
    Resource *items;
    int item_capacity, item_count;
};

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void *__real_aligned_alloc(size_t, size_t);
int __real_posix_memalign(void **, size_t, size_t);
int __real_vasprintf(char **, const char *, va_list);
char *__real_realpath(const char *, char *);
void __real_free(void *);
void *__real_mmap(void *, size_t, int, int, int, off_t);
int __real_munmap(void *, size_t);
int __real_open(const char *, int, ...);
int __real_openat(int, const char *, int, ...);
int __real_memfd_create(const char *, unsigned);
int __real_dup(int);
int __real_close(int);
FILE *__real_fopen(const char *, const char *);
FILE *__real_fdopen(int, const char *);
FILE *__real_open_memstream(char **, size_t *);
int __real_fclose(FILE *);
DIR *__real_opendir(const char *);
DIR *__real_fdopendir(int);
int __real_closedir(DIR *);
gzFile __real_gzopen(const char *, const char *);
gzFile __real_gzdopen(int, const char *);
int __real_gzclose(gzFile);
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __real_pthread_join(pthread_t, void **);

/* ---- the set of addresses */
static size_t place_of(const struct Resources *r, uintptr_t key)
{
    return (size_t)((key >> 4) * 0x9e3779b97f4a7c15u >> 20) & (r->capacity - 1);
}

static size_t find(const struct Resources *r, uintptr_t key) /* returns the key's slot, or a free slot for it */
{
    size_t at = place_of(r, key);
    while (r->set[at] && r->set[at] != key)
        at = (at + 1) & (r->capacity - 1);
    return at;
}

static bool grow(struct Resources *r)
{
    struct Resources larger = {.capacity = r->capacity ? 2 * r->capacity : 256};
    larger.set = __real_calloc(larger.capacity, sizeof *larger.set);
    for (size_t i = 0; larger.set && i < r->capacity; i++)
        if (r->set[i])
            larger.set[find(&larger, r->set[i])] = r->set[i];
    if (!larger.set)
        return false;
    __real_free(r->set);
    r->set = larger.set;
    r->capacity = larger.capacity;
    return true;
}

/* Removes an address. Later addresses that could not be found across the gap move up. */
static void take_out(struct Resources *r, uintptr_t key)
{
    size_t gap = find(r, key);
    if (!r->set[gap])
        return;
    r->count--;
    for (size_t at = (gap + 1) & (r->capacity - 1); r->set[at]; at = (at + 1) & (r->capacity - 1))
        if (((at - place_of(r, r->set[at])) & (r->capacity - 1)) >= ((at - gap) & (r->capacity - 1))) {
            r->set[gap] = r->set[at];
            gap = at;
        }
    r->set[gap] = 0;
}

/* ---- the resources of the calling thread's context; NULL if nothing is recorded */
static struct Resources *begin(Context **c)
{
    *c = mgpu_context_noting();
    if (*c)
        pthread_mutex_lock(&(*c)->lock);
    return *c ? (*c)->resources : NULL;
}

static void end(Context *c)
{
    if (c)
        pthread_mutex_unlock(&c->lock);
}

/* Returns p. If there is no memory to record it, it is not released after an error. */
static void *keep_memory(void *p)
{
    Context *c;
    struct Resources *r = p ? begin(&c) : NULL;
    if (r && (2 * r->count < r->capacity || grow(r))) {
        r->set[find(r, (uintptr_t)p)] = (uintptr_t)p;
        r->count++;
    }
    if (p)
        end(c);
    return p;
}

static void forget_memory(void *p)
{
    Context *c;
    struct Resources *r = p ? begin(&c) : NULL;
    if (r)
        take_out(r, (uintptr_t)p);
    if (p)
        end(c);
}

static bool keep_item(Resource item)
{
    Context *c;
    struct Resources *r = begin(&c);
    if (r && r->item_count == r->item_capacity) {
        int capacity = 2 * r->item_capacity + 16;
        Resource *more = __real_realloc(r->items, (size_t)capacity * sizeof *more);
        r->items = more ? more : r->items;
        r->item_capacity = more ? capacity : r->item_capacity;
    }
    bool kept = r && r->item_count < r->item_capacity;
    if (kept)
        r->items[r->item_count++] = item;
    end(c);
    return kept;
}

static void keep(ResourceKind kind, uintptr_t key, size_t bytes) { keep_item((Resource){kind, key, bytes, NULL}); }

static Resource forget(ResourceKind kind, uintptr_t key) /* returns the item; its key is 0 if it is unknown */
{
    Context *c;
    struct Resources *r = begin(&c);
    Resource item = {0};
    for (int i = r ? r->item_count - 1 : -1; i >= 0 && !item.key; i--)
        if (r->items[i].kind == kind && r->items[i].key == key) {
            item = r->items[i];
            r->items[i] = r->items[--r->item_count];
        }
    end(c);
    return item;
}

/* ---- memory */
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) { return keep_memory(__real_malloc(bytes)); }

void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes) { return keep_memory(__real_calloc(count, bytes)); }

void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes)
{
    forget_memory(old); /* another thread may get its address as soon as it is free */
    void *p = __real_realloc(old, bytes);
    keep_memory(p ? p : old);
    return p;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) { return keep_memory(__real_aligned_alloc(alignment, bytes)); }

int __wrap_posix_memalign(void **p, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **p, size_t alignment, size_t bytes)
{
    int error = __real_posix_memalign(p, alignment, bytes);
    if (!error)
        keep_memory(*p);
    return error;
}

int __wrap_vasprintf(char **text, const char *pattern, va_list arguments);
int __wrap_vasprintf(char **text, const char *pattern, va_list arguments)
{
    int length = __real_vasprintf(text, pattern, arguments);
    if (length >= 0)
        keep_memory(*text);
    return length;
}

char *__wrap_realpath(const char *path, char *to);
char *__wrap_realpath(const char *path, char *to)
{
    char *found = __real_realpath(path, to);
    return to ? found : keep_memory(found);
}

void __wrap_free(void *p);
void __wrap_free(void *p)
{
    forget_memory(p);
    __real_free(p);
}

/* ---- mappings, of which either end may be unmapped */
void *__wrap_mmap(void *at, size_t bytes, int rights, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int rights, int flags, int file, off_t offset)
{
    void *p = __real_mmap(at, bytes, rights, flags, file, offset);
    if (p != MAP_FAILED)
        keep(MAPPING, (uintptr_t)p, bytes);
    return p;
}

int __wrap_munmap(void *p, size_t bytes);
int __wrap_munmap(void *p, size_t bytes)
{
    Context *c;
    struct Resources *r = begin(&c);
    uintptr_t from = (uintptr_t)p, to = from + bytes;
    for (int i = 0; r && i < r->item_count; i++) {
        Resource *m = &r->items[i];
        if (m->kind != MAPPING || from < m->key || from >= m->key + m->bytes)
            continue;
        if (from > m->key) /* the end is unmapped */
            m->bytes = from - m->key;
        else if (to < m->key + m->bytes) /* the beginning is unmapped */
            *m = (Resource){MAPPING, to, m->key + m->bytes - to, NULL};
        else
            *m = r->items[--r->item_count];
        break;
    }
    end(c);
    return __real_munmap(p, bytes);
}

/* ---- files and folders */
static int keep_file(int file)
{
    if (file >= 0)
        keep(DESCRIPTOR, (uintptr_t)file, 0);
    return file;
}

/* Returns `opened`. file: a descriptor that it takes over, or -1. */
static void *keep_open(ResourceKind kind, void *opened, int file)
{
    if (opened && file >= 0)
        forget(DESCRIPTOR, (uintptr_t)file);
    if (opened)
        keep(kind, (uintptr_t)opened, 0);
    return opened;
}

/* Returns the third argument of open, which exists if a file may be created. O_TMPFILE includes the bits of O_DIRECTORY. */
static mode_t mode_of(int flags, va_list arguments)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(arguments, int) : 0;
}

int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int file = keep_file(__real_open(path, flags, mode_of(flags, arguments)));
    va_end(arguments);
    return file;
}

int __wrap_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    int file = keep_file(__real_openat(folder, path, flags, mode_of(flags, arguments)));
    va_end(arguments);
    return file;
}

int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags) { return keep_file(__real_memfd_create(name, flags)); }

int __wrap_dup(int file);
int __wrap_dup(int file) { return keep_file(__real_dup(file)); }

int __wrap_close(int file);
int __wrap_close(int file)
{
    forget(DESCRIPTOR, (uintptr_t)file);
    return __real_close(file);
}

FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode) { return keep_open(STREAM, __real_fopen(path, mode), -1); }

FILE *__wrap_fdopen(int file, const char *mode);
FILE *__wrap_fdopen(int file, const char *mode) { return keep_open(STREAM, __real_fdopen(file, mode), file); }

FILE *__wrap_open_memstream(char **text, size_t *length);
FILE *__wrap_open_memstream(char **text, size_t *length)
{
    Made *made = mgpu_context_noting() ? __real_calloc(1, sizeof *made) : NULL;
    if (!made)
        return mgpu_context_noting() ? NULL : __real_open_memstream(text, length);
    made->to = text;
    made->to_length = length;
    FILE *f = __real_open_memstream(&made->text, &made->length);
    if (f && keep_item((Resource){TEXT, (uintptr_t)f, 0, made}))
        return f;
    if (f)
        __real_fclose(f);
    __real_free(made->text);
    __real_free(made);
    return NULL;
}

int __wrap_fclose(FILE *f);
int __wrap_fclose(FILE *f)
{
    Made *made = forget(TEXT, (uintptr_t)f).made;
    if (!made)
        forget(STREAM, (uintptr_t)f);
    int error = __real_fclose(f);
    if (made) {
        *made->to = keep_memory(made->text);
        *made->to_length = made->length;
        __real_free(made);
    }
    return error;
}

DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path) { return keep_open(FOLDER, __real_opendir(path), -1); }

DIR *__wrap_fdopendir(int file);
DIR *__wrap_fdopendir(int file) { return keep_open(FOLDER, __real_fdopendir(file), file); }

int __wrap_closedir(DIR *folder);
int __wrap_closedir(DIR *folder)
{
    forget(FOLDER, (uintptr_t)folder);
    return __real_closedir(folder);
}

gzFile __wrap_gzopen(const char *path, const char *mode);
gzFile __wrap_gzopen(const char *path, const char *mode) { return keep_open(GZIP, __real_gzopen(path, mode), -1); }

gzFile __wrap_gzdopen(int file, const char *mode);
gzFile __wrap_gzdopen(int file, const char *mode) { return keep_open(GZIP, __real_gzdopen(file, mode), file); }

int __wrap_gzclose(gzFile f);
int __wrap_gzclose(gzFile f)
{
    forget(GZIP, (uintptr_t)f);
    return __real_gzclose(f);
}

/* ---- threads */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    int error = __real_pthread_create(thread, attributes, run, argument);
    if (!error)
        keep(THREAD, (uintptr_t)*thread, 0);
    return error;
}

int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result)
{
    forget(THREAD, (uintptr_t)thread);
    int error = __real_pthread_join(thread, result);
    mgpu_context_leave(); /* the thread may have failed; then this one must not continue */
    return error;
}

/* ---- release */
struct Resources *mgpu_resources_new(void)
{
    struct Resources *r = __real_calloc(1, sizeof *r);
    if (r && !grow(r)) {
        __real_free(r);
        return NULL;
    }
    return r;
}

void mgpu_resources_free(struct Resources *r)
{
    if (r)
        __real_free(r->set);
    __real_free(r);
}

static void release(const Resource *item)
{
    switch (item->kind) {
    case THREAD: __real_pthread_join((pthread_t)item->key, NULL); break;
    case GZIP: __real_gzclose((gzFile)item->key); break;
    case STREAM:
    case TEXT: __real_fclose((FILE *)item->key); break;
    case FOLDER: __real_closedir((DIR *)item->key); break;
    case DESCRIPTOR: __real_close((int)item->key); break;
    case MAPPING: __real_munmap((void *)item->key, item->bytes); break;
    default: break;
    }
    if (item->made)
        __real_free(item->made->text);
    __real_free(item->made);
}

/* Removes the last item of a kind. Returns false if there is none. */
static bool take_last(Context *c, ResourceKind kind, Resource *last)
{
    struct Resources *r = c->resources;
    bool found = false;
    pthread_mutex_lock(&c->lock);
    for (int i = r->item_count - 1; i >= 0 && !found; i--) {
        found = r->items[i].kind == kind;
        *last = r->items[i];
        if (found)
            r->items[i] = r->items[--r->item_count];
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

void mgpu_resources_release(Context *c)
{
    struct Resources *r = c->resources;
    for (ResourceKind kind = 0; kind < KINDS; kind++) {
        for (Resource item; take_last(c, kind, &item);)
            release(&item);
        if (kind == THREAD)
            mgpu_context_release(c); /* all threads have ended */
    }
    for (size_t i = 0; i < r->capacity; i++)
        __real_free((void *)r->set[i]);
    __real_free(r->items);
    mgpu_resources_free(r);
    c->resources = NULL;
}
