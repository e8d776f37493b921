/* cubin.c: read from a cubin what its functions use: registers, shared memory, local memory. A cubin is an ELF file. Its section
 * .nv.info holds attributes, each of a format, a code, the value's length and the value; here a value is a symbol's number and a
 * count. A function's static shared memory is as large as its section .nv.shared.NAME. The virtual GPU reads cubins with this
 * file, too. */
#include "compiler/link/cubin.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { VALUE_FORMAT = 4, REGISTERS = 0x2f, FRAME = 0x11 };

typedef struct Elf {
    const char *bytes;
    Elf64_Ehdr head;
} Elf;

static Elf64_Shdr section(const Elf *e, int number)
{
    Elf64_Shdr s;
    memcpy(&s, e->bytes + e->head.e_shoff + (size_t)number * e->head.e_shentsize, sizeof s);
    return s;
}

static const char *section_name(const Elf *e, const Elf64_Shdr *s)
{
    return e->bytes + section(e, e->head.e_shstrndx).sh_offset + s->sh_name;
}

static bool find_section(const Elf *e, const char *name, Elf64_Shdr *found)
{
    for (int i = 0; i < e->head.e_shnum; i++) {
        *found = section(e, i);
        if (strcmp(section_name(e, found), name) == 0)
            return true;
    }
    return false;
}

static const char *symbol_name(const Elf *e, uint32_t number)
{
    Elf64_Shdr symbols;
    Elf64_Sym s;
    if (!find_section(e, ".symtab", &symbols))
        return "";
    memcpy(&s, e->bytes + symbols.sh_offset + number * sizeof s, sizeof s);
    return e->bytes + section(e, (int)symbols.sh_link).sh_offset + s.st_name;
}

bool cubin_function(const char *bytes, size_t length, const char *name, CubinFunction *f)
{
    Elf e = {.bytes = bytes};
    Elf64_Shdr info, shared;
    char section_of[1024];
    bool known = false;
    *f = (CubinFunction){0};
    if (length < sizeof e.head || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return false;
    memcpy(&e.head, bytes, sizeof e.head);
    if (!find_section(&e, ".nv.info", &info))
        return false;
    for (const char *at = bytes + info.sh_offset, *end = at + info.sh_size; at + 4 <= end;) {
        uint16_t size;
        uint32_t value[2];
        memcpy(&size, at + 2, sizeof size);
        if (at[0] != VALUE_FORMAT)
            size = 0; /* the value is stored where the length would be */
        if (size == sizeof value && (at[1] == REGISTERS || at[1] == FRAME)) {
            memcpy(value, at + 4, sizeof value);
            if (strcmp(symbol_name(&e, value[0]), name) == 0) {
                known = true;
                *(at[1] == REGISTERS ? &f->registers : &f->local_bytes) = (int)value[1];
            }
        }
        at += 4 + size;
    }
    snprintf(section_of, sizeof section_of, ".nv.shared.%s", name);
    if (find_section(&e, section_of, &shared))
        f->shared_bytes = (int)shared.sh_size;
    return known;
}
