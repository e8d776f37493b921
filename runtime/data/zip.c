/* zip.c: one member of a .zip archive (NumPy's .npz), stored or deflated, also of archives beyond 4 GiB (zip64).
 *
 * The end of the file says where the central directory is; its entries say name, method, sizes and where the member's own
 * header is; the bytes are after that. Nothing of the file is trusted: a member is unpacked into memory that grows with what
 * comes, no further than its size (mgpu_check_unpacked says which sizes are believed), and its CRC-32 is compared, of stored members,
 * which stay mapped, too. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { END = 22, END64 = 56, LOCATOR = 20, ENTRY = 46, LOCAL = 30, STORED = 0, DEFLATED = 8 };
enum { DEFLATE_MOST = 1032 }; /* bytes that a packed one expands to, at most (RFC 1951: 258 of two bits) */

typedef struct Archive {
    const uint8_t *data;
    int64_t bytes;
    const char *path, *where;
} Archive;
typedef struct Member {
    int method;
    uint32_t crc;
    uint64_t packed, bytes, local;
    const char *name;
    int name_length;
} Member;

static uint64_t number(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static _Noreturn void broken(const Archive *a)
{
    mgpu_fail(MGPU_BAD_INPUT, "%s%s: not a .npz file, or a damaged one", a->where, a->path);
}

/* `bytes` bytes at `at` that begin with a signature; fails if they are not there */
static const uint8_t *record(const Archive *a, uint64_t at, int64_t bytes, const char signature[4])
{
    if (at > (uint64_t)a->bytes || (uint64_t)a->bytes - at < (uint64_t)bytes || memcmp(a->data + at, signature, 4) != 0)
        broken(a);
    return a->data + at;
}

/* -> where the central directory begins, and how many entries it has */
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

/* sizes that do not fit into 32 bits are in the extra field 1, in this order */
static void read_zip64(Member *m, const uint8_t *extra, int64_t length)
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

static bool find_member(const Archive *a, const char *name, Member *m, char *names, size_t room)
{
    uint64_t entries, at = find_directory(a, &entries);
    size_t listed = 0;
    for (uint64_t i = 0; i < entries; i++) {
        const uint8_t *e = record(a, at, ENTRY, "PK\1\2");
        int64_t name_length = (int64_t)number(e + 28, 2), extra = (int64_t)number(e + 30, 2),
                comment = (int64_t)number(e + 32, 2);
        if (a->bytes - (int64_t)at < ENTRY + name_length + extra + comment)
            broken(a);
        *m = (Member){.method = (int)number(e + 10, 2), .crc = (uint32_t)number(e + 16, 4), .packed = number(e + 20, 4),
                      .bytes = number(e + 24, 4), .local = number(e + 42, 4), .name = (const char *)e + ENTRY, .name_length = (int)name_length};
        read_zip64(m, e + ENTRY + name_length, extra);
        if ((size_t)name_length == strlen(name) && memcmp(m->name, name, strlen(name)) == 0)
            return true;
        bool array = name_length > 4 && memcmp(m->name + name_length - 4, ".npy", 4) == 0;
        if (listed < room)
            listed += (size_t)snprintf(names + listed, room - listed, "%s%.*s", i ? ", " : "", (int)name_length - (array ? 4 : 0),
                                       m->name);
        at += (uint64_t)(ENTRY + name_length + extra + comment);
    }
    return false;
}

/* zlib counts in 32 bits */
static uInt part_of(uint64_t bytes)
{
    return (uInt)(bytes < 1u << 30 ? bytes : 1u << 30);
}

static uint32_t add_to_crc(uint32_t crc, const uint8_t *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += part_of(bytes - at))
        crc = (uint32_t)crc32(crc, data + at, part_of(bytes - at));
    return crc;
}

static uint8_t *inflate_member(const Archive *a, const Member *m, const uint8_t *packed, uint32_t *crc)
{
    enum { FIRST = 1 << 22 };
    z_stream z = {.next_in = (Bytef *)(uintptr_t)packed};
    uint64_t in = m->packed, done = 0, room = 0, most = m->bytes + 1; /* one byte more than there may be */
    uint8_t *data = NULL;
    int status = inflateInit2(&z, -MAX_WBITS);
    while (status == Z_OK && done < most) {
        if (done == room) {
            room = room ? 2 * room : FIRST;
            room = room < most ? room : most;
            data = mgpu_resize(data, room);
        }
        uInt more = part_of(in), space = part_of(room - done);
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

void mgpu_read_member(FileBytes *file, const char *name, const char *path, const char *where)
{
    Archive a = {file->data, file->bytes, path, where};
    Member m;
    char names[400] = "";
    char *entry = mgpu_format("%s.npy", name);
    if (!find_member(&a, entry, &m, names, sizeof names))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: it holds no array '%s'; it has: %s", where, path, name, names);
    free(entry);
    const uint8_t *local = record(&a, m.local, LOCAL, "PK\3\4");
    uint64_t at = m.local + LOCAL + number(local + 26, 2) + number(local + 28, 2);
    if (at > (uint64_t)a.bytes || m.packed > (uint64_t)a.bytes - at || (m.method == STORED && m.packed != m.bytes) ||
        m.bytes > INT64_MAX / 2 || (m.method == DEFLATED && m.bytes / DEFLATE_MOST > m.packed))
        broken(&a);
    if (m.method != STORED && m.method != DEFLATED)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s%s: '%s' is packed by the method %d; numpy.savez and savez_compressed write what can be read", where, path,
                  name, m.method);
    uint32_t crc = 0;
    uint8_t *data = NULL;
    if (m.method == STORED) {
        crc = add_to_crc(crc, a.data + at, m.bytes);
    } else {
        mgpu_check_unpacked((int64_t)m.packed, (int64_t)m.bytes, path, where);
        data = inflate_member(&a, &m, a.data + at, &crc);
    }
    if (crc != m.crc)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: '%s' is damaged: its checksum (CRC-32) is another", where, path, name);
    if (m.method == STORED) {
        file->member = a.data + at;
        file->member_bytes = (int64_t)m.bytes;
        return;
    }
    mgpu_close_file(file);
    *file = (FileBytes){.data = data, .bytes = (int64_t)m.bytes, .owned = data, .member = data, .member_bytes = (int64_t)m.bytes};
}
