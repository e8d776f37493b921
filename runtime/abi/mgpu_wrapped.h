/* mgpu_wrapped.h: the functions by which the runtime acquires resources of the system or releases them. In a library (mgpuc
 * --shared) the linker's --wrap replaces them by those of runtime/library/resources.c, which track what an open model has. What
 * libraries acquire by themselves (zlib's buffers, those of stdio) is theirs, and is freed with what they have opened. */
#ifndef MGPU_WRAPPED_H
#define MGPU_WRAPPED_H

/* clang-format off */
#define MGPU_WRAPPED(name)                                                                                                     \
    name(malloc) name(calloc) name(realloc) name(aligned_alloc) name(posix_memalign) name(vasprintf) name(realpath) name(free) \
    name(mmap) name(munmap) name(open) name(openat) name(memfd_create) name(dup) name(close)                                   \
    name(fopen) name(fdopen) name(open_memstream) name(fclose) name(opendir) name(fdopendir) name(closedir)                    \
    name(gzopen) name(gzdopen) name(gzclose)                                                                                   \
    name(pthread_create) name(pthread_join)
/* clang-format on */
#endif
