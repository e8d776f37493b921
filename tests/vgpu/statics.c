/* statics.c: how much static shared memory a kernel of an image has.
 *
 * `__shared__` makes a static variable of the function that it is in, usually a template of the device headers, and a kernel has
 * those of all functions that it calls. The image's relocations say who calls whom and who uses which variable: it is
 * compiled with a section for each function, so that no call is without one, and linked with --emit-relocs. A relocation of a
 * local variable is one of its section, less what is after it in the instruction: it may be taken for the variable's neighbour,
 * which none of our kernels shows. A GPU's dynamic shared memory begins after the static one, where 256 divides the address. */
#include "tests/vgpu/vgpu.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { PC_RELATIVE = 4 /* bytes from the place of the relocation to the next instruction */, DYNAMIC_ALIGNMENT = 256 };

typedef struct Symbol {
    uintptr_t begin, end;
    const char *name;
    bool variable, seen;
} Symbol;
typedef struct Use {
    int by, of;
} Use;
struct Statics {
    Symbol *symbols;
    Use *uses;
    char *names;
    int symbol_count, use_count;
};

static Elf64_Shdr section(const char *image, int number)
{
    Elf64_Ehdr head;
    Elf64_Shdr s;
    memcpy(&head, image, sizeof head);
    memcpy(&s, image + head.e_shoff + (size_t)number * head.e_shentsize, sizeof s);
    return s;
}

static int by_address(const void *a, const void *b)
{
    const Symbol *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* the last symbol that begins at the address or before it, or -1 */
static int last_before(const Statics *s, uintptr_t address)
{
    int low = -1, high = s->symbol_count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        *(s->symbols[middle].begin <= address ? &low : &high) = middle;
    }
    return low;
}

static int symbol_at(const Statics *s, uintptr_t address)
{
    int k = last_before(s, address);
    return k >= 0 && address < s->symbols[k].end ? k : -1;
}

static void read_symbols(Statics *s, const char *image, const Elf64_Shdr *table)
{
    int count = (int)(table->sh_size / sizeof(Elf64_Sym));
    Elf64_Shdr names = section(image, (int)table->sh_link);
    s->names = malloc(names.sh_size);
    memcpy(s->names, image + names.sh_offset, names.sh_size);
    s->symbols = calloc((size_t)count + 1, sizeof *s->symbols);
    for (int k = 0; k < count; k++) {
        Elf64_Sym e;
        memcpy(&e, image + table->sh_offset + (size_t)k * sizeof e, sizeof e);
        int type = ELF64_ST_TYPE(e.st_info);
        bool memory = e.st_shndx != SHN_UNDEF && e.st_shndx < SHN_LORESERVE;
        /* .bss: all of it is shared memory */
        bool variable = memory && type == STT_OBJECT && section(image, e.st_shndx).sh_type == SHT_NOBITS;
        if (e.st_size && memory && (variable || type == STT_FUNC))
            s->symbols[s->symbol_count++] =
                (Symbol){.begin = e.st_value, .end = e.st_value + e.st_size, .name = s->names + e.st_name, .variable = variable};
    }
    qsort(s->symbols, (size_t)s->symbol_count, sizeof *s->symbols, by_address);
}

static bool is_absolute(uint32_t type)
{
#if defined __x86_64__
    return type == R_X86_64_64 || type == R_X86_64_32 || type == R_X86_64_32S;
#else
    (void)type;
    return true; /* an instruction's own address is not taken off */
#endif
}

static void read_uses(Statics *s, const char *image, const Elf64_Shdr *table)
{
    Elf64_Shdr symbols = section(image, (int)table->sh_link);
    int count = (int)(table->sh_size / sizeof(Elf64_Rela));
    s->uses = realloc(s->uses, (size_t)(s->use_count + count + 1) * sizeof *s->uses);
    for (int k = 0; k < count; k++) {
        Elf64_Rela r;
        Elf64_Sym e;
        memcpy(&r, image + table->sh_offset + (size_t)k * sizeof r, sizeof r);
        memcpy(&e, image + symbols.sh_offset + ELF64_R_SYM(r.r_info) * sizeof e, sizeof e);
        if (e.st_shndx == SHN_UNDEF)
            continue;
        uintptr_t to = e.st_value + (uintptr_t)r.r_addend + (is_absolute(ELF64_R_TYPE(r.r_info)) ? 0 : PC_RELATIVE);
        Use u = {symbol_at(s, r.r_offset), symbol_at(s, to)};
        if (u.by >= 0 && u.of >= 0 && u.by != u.of)
            s->uses[s->use_count++] = u;
    }
}

static int by_user(const void *a, const void *b) { return ((const Use *)a)->by - ((const Use *)b)->by; }

Statics *vgpu_read_statics(const void *image)
{
    Statics *s = calloc(1, sizeof *s);
    Elf64_Ehdr head;
    memcpy(&head, image, sizeof head);
    for (int k = 0; k < head.e_shnum; k++) {
        Elf64_Shdr table = section(image, k);
        if (table.sh_type == SHT_SYMTAB && !s->symbols)
            read_symbols(s, image, &table);
    }
    for (int k = 0; k < head.e_shnum; k++) {
        Elf64_Shdr table = section(image, k);
        bool linkers = table.sh_type == SHT_RELA && !(table.sh_flags & SHF_ALLOC); /* not the loader's */
        if (linkers && section(image, (int)table.sh_info).sh_flags & SHF_EXECINSTR)
            read_uses(s, image, &table);
    }
    if (s->use_count) {
        qsort(s->uses, (size_t)s->use_count, sizeof *s->uses, by_user);
        return s;
    }
    vgpu_free_statics(s);
    return NULL;
}

void vgpu_free_statics(Statics *s)
{
    if (!s)
        return;
    free(s->symbols);
    free(s->names);
    free(s->uses);
    free(s);
}

static size_t bytes_from(Statics *s, int user)
{
    Symbol *own = &s->symbols[user];
    size_t bytes = 0;
    if (own->seen)
        return 0;
    own->seen = true;
    if (own->variable)
        return (own->end - own->begin + 15) / 16 * 16; /* none of them asks for more */
    int low = -1, high = s->use_count;                 /* the first of its uses */
    while (high - low > 1) {
        int middle = (low + high) / 2;
        *(s->uses[middle].by < user ? &low : &high) = middle;
    }
    for (int k = high; k < s->use_count && s->uses[k].by == user; k++)
        bytes += bytes_from(s, s->uses[k].of);
    return bytes;
}

size_t vgpu_static_shared(Statics *s, const char *function)
{
    size_t bytes = 0;
    for (int k = 0; k < s->symbol_count; k++)
        s->symbols[k].seen = false;
    for (int k = 0; k < s->symbol_count && !bytes; k++)
        if (!s->symbols[k].variable && strcmp(s->symbols[k].name, function) == 0)
            bytes = bytes_from(s, k);
    return (bytes + DYNAMIC_ALIGNMENT - 1) / DYNAMIC_ALIGNMENT * DYNAMIC_ALIGNMENT;
}
