/* zip.c: members of a .zip archive (NumPy's .npz, PyTorch's .pt), stored or deflated, including archives beyond 4 GiB (zip64).
 *
 * The end of the file has the offset of the central directory. Its entries have the name, method and sizes of a member, and the
 * offset of its local header, which the bytes follow. The file is not trusted: the memory for an unpacked member grows with its
 * data up to its size, which must be plausible (mgpu_check_unpacked). The CRC-32 is compared, also of stored members, which stay
 * mapped. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { END = 22, END64 = 56, LOCATOR = 20, ENTRY = 46, LOCAL = 30, STORED = 0, DEFLATED = 8 };
enum { DEFLATE_MOST = 1032 }; /* maximal expansion of a byte (RFC 1951: two bits become 258 bytes) */

typedef struct ZipMember {
    int method;
    uint32_t crc;
    uint64_t packed, bytes, local;
    const char *name;
    int name_length;
} ZipMember;
struct Archive {
    const uint8_t *data;
    int64_t bytes;
    const char *path, *where;
    ZipMember *members;
    int count;
};

static uint64_t number(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static _Noreturn void broken(const Archive *a)
{
    mgpu_fail(MGPU_BAD_INPUT, "%s%s: not a zip archive, or a damaged one", a->where, a->path);
}

/* Returns `bytes` bytes at offset `at`. Fails if they are not there or have another signature. */
static const uint8_t *record(const Archive *a, uint64_t at, int64_t bytes, const char signature[4])
{
    if (at > (uint64_t)a->bytes || (uint64_t)a->bytes - at < (uint64_t)bytes || memcmp(a->data + at, signature, 4) != 0)
        broken(a);
    return a->data + at;
}

/* Returns the offset of the central directory and its number of entries. */
static uint64_t find_directory(const Archive *a, uint64_t *entries)
{
    int64_t at = a->bytes - END, least = at - 65535;
    while (at >= 0 && at >= least && memcmp(a->data + at, "PK\5\6", 4) != 0)
        at--;
    if (at < 0 || at < least)
        broken(a);
    *entries = number(a->data + at + 10, 2);
    uint64_t directory = number(a->data + at + 16, 4);
    if (at < LOCATOR || memcmp(a->data + at - LOCATOR, "PK\6\7", 4) != 0)
        return directory;
    const uint8_t *end = record(a, number(a->data + at - LOCATOR + 8, 8), END64, "PK\6\6");
    *entries = number(end + 32, 8);
    return number(end + 48, 8);
}

/* Sizes of more than 32 bits are in extra field 1, in this order. */
static void read_zip64(ZipMember *m, const uint8_t *extra, int64_t length)
{
    uint64_t *const values[] = {&m->bytes, &m->packed, &m->local};
    for (; length >= 4; length -= 4 + (int64_t)number(extra + 2, 2), extra += 4 + number(extra + 2, 2)) {
        int64_t size = (int64_t)number(extra + 2, 2), at = 4;
        if (size > length - 4)
            return;
        for (int k = 0; number(extra, 2) == 1 && k < MGPU_COUNT(values); k++)
            if (*values[k] == UINT32_MAX && at + 8 <= size + 4) {
                *values[k] = number(extra + at, 8);
                at += 8;
            }
    }
}

Archive *mgpu_open_archive(const FileBytes *file, const char *path, const char *where)
{
    Archive *a = mgpu_allocate(1, sizeof *a);
    *a = (Archive){.data = file->data, .bytes = file->bytes, .path = path, .where = where};
    uint64_t entries, at = find_directory(a, &entries);
    if (entries > (uint64_t)a->bytes / ENTRY)
        broken(a);
    a->members = mgpu_allocate((size_t)entries + 1, sizeof *a->members);
    for (uint64_t i = 0; i < entries; i++) {
        const uint8_t *e = record(a, at, ENTRY, "PK\1\2");
        int64_t name_length = (int64_t)number(e + 28, 2), extra = (int64_t)number(e + 30, 2),
                comment = (int64_t)number(e + 32, 2);
        if (a->bytes - (int64_t)at < ENTRY + name_length + extra + comment)
            broken(a);
        ZipMember *m = &a->members[a->count++];
        *m = (ZipMember){.method = (int)number(e + 10, 2),
                         .crc = (uint32_t)number(e + 16, 4),
                         .packed = number(e + 20, 4),
                         .bytes = number(e + 24, 4),
                         .local = number(e + 42, 4),
                         .name = (const char *)e + ENTRY,
                         .name_length = (int)name_length};
        read_zip64(m, e + ENTRY + name_length, extra);
        at += (uint64_t)(ENTRY + name_length + extra + comment);
    }
    return a;
}

void mgpu_close_archive(Archive *a)
{
    free(a->members);
    free(a);
}

int mgpu_member_count(const Archive *a) { return a->count; }

char *mgpu_member_name(const Archive *a, int member)
{
    return mgpu_format("%.*s", a->members[member].name_length, a->members[member].name);
}

int mgpu_find_member(const Archive *a, const char *name)
{
    for (int i = 0; i < a->count; i++)
        if ((size_t)a->members[i].name_length == strlen(name) && memcmp(a->members[i].name, name, strlen(name)) == 0)
            return i;
    return -1;
}

/* Limits a count to what zlib's 32 bits hold. */
static uInt part_of(uint64_t bytes) { return (uInt)(bytes < 1u << 30 ? bytes : 1u << 30); }

static uint32_t add_to_crc(uint32_t crc, const uint8_t *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += part_of(bytes - at))
        crc = (uint32_t)crc32(crc, data + at, part_of(bytes - at));
    return crc;
}

static uint8_t *inflate_member(const Archive *a, const ZipMember *m, const uint8_t *packed, uint32_t *crc)
{
    enum { FIRST = 1 << 22 };
    z_stream z = {.next_in = (Bytef *)(uintptr_t)packed};
    /* most: one byte more than is valid, to detect excess */
    uint64_t in = m->packed, done = 0, capacity = 0, most = m->bytes + 1;
    uint8_t *data = NULL;
    int status = inflateInit2(&z, -MAX_WBITS);
    while (status == Z_OK && done < most) {
        if (done == capacity) {
            capacity = capacity ? 2 * capacity : FIRST;
            capacity = capacity < most ? capacity : most;
            data = mgpu_resize(data, capacity);
        }
        uInt more = part_of(in), space = part_of(capacity - done);
        z.avail_in = more;
        z.next_out = data + done;
        z.avail_out = space;
        status = inflate(&z, Z_NO_FLUSH);
        in -= more - z.avail_in;
        *crc = add_to_crc(*crc, data + done, space - z.avail_out);
        done += space - z.avail_out;
        if (status == Z_OK && more == z.avail_in && space == z.avail_out)
            break;
    }
    inflateEnd(&z);
    if (status != Z_STREAM_END || done != m->bytes)
        broken(a);
    return data;
}

const uint8_t *mgpu_member_bytes(const Archive *a, int member, int64_t *bytes, uint8_t **owned)
{
    const ZipMember *m = &a->members[member];
    const uint8_t *local = record(a, m->local, LOCAL, "PK\3\4");
    uint64_t at = m->local + LOCAL + number(local + 26, 2) + number(local + 28, 2);
    if (at > (uint64_t)a->bytes || m->packed > (uint64_t)a->bytes - at || (m->method == STORED && m->packed != m->bytes) ||
        m->bytes > INT64_MAX / 2 || (m->method == DEFLATED && m->bytes / DEFLATE_MOST > m->packed))
        broken(a);
    if (m->method != STORED && m->method != DEFLATED)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s%s: '%.*s' is packed by the method %d; members that are stored or deflated can be read, as numpy.savez and "
                  "torch.save write them",
                  a->where, a->path, m->name_length, m->name, m->method);
    uint32_t crc = 0;
    *owned = NULL;
    if (m->method == STORED) {
        crc = add_to_crc(crc, a->data + at, m->bytes);
    } else {
        mgpu_check_unpacked((int64_t)m->packed, (int64_t)m->bytes, a->path, a->where);
        *owned = inflate_member(a, m, a->data + at, &crc);
    }
    if (crc != m->crc)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: '%.*s' is damaged: its checksum (CRC-32) is another", a->where, a->path, m->name_length,
                  m->name);
    *bytes = (int64_t)m->bytes;
    return *owned ? *owned : a->data + at;
}

/* Prints the names of arrays as NumPy shows them: "a, b, c". */
static void list_arrays(const Archive *a, char *names, size_t capacity)
{
    size_t listed = 0;
    for (int i = 0; i < a->count && listed < capacity; i++) {
        const ZipMember *m = &a->members[i];
        bool array = m->name_length > 4 && memcmp(m->name + m->name_length - 4, ".npy", 4) == 0;
        listed += (size_t)snprintf(names + listed, capacity - listed, "%s%.*s", i ? ", " : "", m->name_length - (array ? 4 : 0),
                                   m->name);
    }
}

void mgpu_read_member(FileBytes *file, const char *name, const char *path, const char *where)
{
    Archive *a = mgpu_open_archive(file, path, where);
    char names[400] = "", *entry = mgpu_format("%s.npy", name);
    int member = mgpu_find_member(a, entry);
    if (member < 0) {
        list_arrays(a, names, sizeof names);
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: it holds no array '%s'; it has: %s", where, path, name, names);
    }
    free(entry);
    int64_t bytes;
    uint8_t *owned;
    const uint8_t *data = mgpu_member_bytes(a, member, &bytes, &owned);
    if (owned) {
        mgpu_close_file(file);
        *file = (FileBytes){.data = owned, .bytes = bytes, .owned = owned};
    }
    file->member = data;
    file->member_bytes = bytes;
    mgpu_close_archive(a);
}
