/* files.c: finds data files, and maps or reads them, plain or gzipped (zlib reads plain files, too).
 *
 * Pipes and devices are refused: one may block forever, the other never end. Packed files are unpacked as a stream, into memory
 * that grows with the data, up to a limit: deflate expands a byte to as many as 1032, so that a file of a few megabytes could
 * fill all memory. Real data is rarely packed 250 times; a user who has such data unpacks it first. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

char *mgpu_path_in(const char *folder, const char *path)
{
    return path[0] != '/' && folder ? mgpu_format("%s/%s", folder, path) : mgpu_format("%s", path);
}

const char *mgpu_data_cure(const char *folder) { return folder ? "" : "; say where the data is with --data DIR"; }

char *mgpu_find_file(const char *path, const char *folder, const char *where)
{
    bool inside = path[0] != '/' && folder;
    char *full = mgpu_path_in(folder, path);
    mgpu_doing_with(full);
    if (access(full, F_OK) == 0)
        return full;
    size_t length = strlen(full);
    char *other = mgpu_ends_with(full, ".gz") ? mgpu_format("%.*s", (int)length - 3, full) : mgpu_format("%s.gz", full);
    if (access(other, F_OK) == 0) {
        free(full);
        return other;
    }
    char here[4096];
    if (path[0] == '/')
        mgpu_fail(MGPU_BAD_INPUT, "%sthere is no file %s, nor %s", where, full, other);
    mgpu_fail(MGPU_BAD_INPUT, "%sthere is no file %s, nor %s, in %s %s%s", where, path,
              strrchr(other, '/') && !strchr(path, '/') ? strrchr(other, '/') + 1 : other,
              inside ? "the folder" : "the current folder",
              inside                      ? folder
              : getcwd(here, sizeof here) ? here
                                          : ".",
              mgpu_data_cure(folder));
}

/* Fails for folders, pipes and devices. */
static int open_plain(const char *path, const char *where, int64_t *bytes)
{
    mgpu_doing_with(path);
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: does not wait for a pipe */
    struct stat status;
    if (f < 0 || fstat(f, &status) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s", where, path, strerror(errno));
    if (S_ISDIR(status.st_mode))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s is a folder, a file is expected", where, path);
    if (!S_ISREG(status.st_mode))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s is a pipe, a device or a socket, a file is expected; cat %s >FILE makes one", where, path,
                  path);
    *bytes = status.st_size;
    return f;
}

gzFile mgpu_open_packed(const char *path, const char *where, int64_t *packed)
{
    int f = open_plain(path, where, packed);
    gzFile g = gzdopen(f, "rb");
    if (!g)
        mgpu_no_memory(1 << 18);
    gzbuffer(g, 1 << 18);
    return g;
}

enum { RATIO = 250, FREE = 1 << 28 };

bool mgpu_believes_unpacked(int64_t packed, int64_t bytes) { return bytes <= FREE || bytes / RATIO <= packed; }

void mgpu_check_unpacked(int64_t packed, int64_t bytes, const char *path, const char *where)
{
    if (!mgpu_believes_unpacked(packed, bytes))
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s%s: %lld bytes would unpack to more than %d times as many, as damaged or hostile files do; if it is right, "
                  "unpack it first (gzip -d, unzip)",
                  where, path, (long long)packed, RATIO);
}

const char *mgpu_compressed_by(const uint8_t *data, int64_t bytes)
{
    static const struct {
        const char *begin, *what;
    } FORMATS[] = {
        {"\x28\xb5\x2f\xfd", "compressed by zstd; unzstd unpacks it"},
        {"\xfd"
         "7zXZ",
         "compressed by xz; unxz unpacks it"},
        {"BZh9", "compressed by bzip2; bunzip2 unpacks it"},
    };
    for (int i = 0; i < MGPU_COUNT(FORMATS); i++) {
        size_t length = strlen(FORMATS[i].begin);
        if (bytes >= (int64_t)length && memcmp(data, FORMATS[i].begin, length) == 0)
            return FORMATS[i].what;
    }
    return NULL;
}

void mgpu_map_file(FileBytes *b, const char *path, const char *where)
{
    int64_t bytes;
    int f = open_plain(path, where, &bytes);
    *b = (FileBytes){.data = (const uint8_t *)"", .bytes = bytes};
    if (bytes) {
        b->map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, f, 0);
        if (b->map == MAP_FAILED)
            mgpu_fail(MGPU_MACHINE_FAILED, "%s%s cannot be read: %s", where, path, strerror(errno));
        b->data = b->map;
    }
    close(f);
}

/* Allocates memory as data arrives. */
static void unpack(FileBytes *b, const char *path, const char *where)
{
    uint8_t *data = NULL;
    int64_t capacity = 0, done = 0, packed;
    gzFile f = mgpu_open_packed(path, where, &packed);
    int n, code;
    do {
        if (capacity - done < 1 << 20) {
            capacity = capacity ? 2 * capacity : 1 << 22;
            data = mgpu_resize(data, (size_t)capacity);
        }
        n = gzread(f, data + done, (unsigned)(capacity - done < 1 << 24 ? capacity - done : 1 << 24));
        done += n > 0 ? n : 0;
        if (!gzdirect(f))
            mgpu_check_unpacked(packed, done, path, where);
    } while (n > 0);
    gzerror(f, &code);
    if (n < 0 || code != Z_OK)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s after %lld bytes", where, path,
                  code == Z_ERRNO       ? strerror(errno)
                  : code == Z_BUF_ERROR ? "the file is truncated"
                                        : "the compressed data is damaged",
                  (long long)done);
    gzclose(f);
    data = mgpu_resize(data, (size_t)done);
    *b = (FileBytes){.data = data, .bytes = done, .owned = data};
}

void mgpu_load_file(FileBytes *b, const char *path, const char *where, bool load)
{
    int64_t bytes;
    int f = open_plain(path, where, &bytes);
    uint8_t magic[2] = {0};
    bool packed = bytes > 2 && pread(f, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    close(f);
    if (packed || load)
        unpack(b, path, where);
    else
        mgpu_map_file(b, path, where);
}

void mgpu_close_file(FileBytes *b)
{
    if (b->map)
        munmap(b->map, (size_t)b->bytes);
    free(b->owned);
    *b = (FileBytes){0};
}
