/* pickle.c: reads Python's pickles (PEP 307, 3154, 574; Lib/pickletools.py describes the instructions) as data.
 *
 * A pickle is a program for a stack machine, which in Python may call any function. Here REDUCE, NEWOBJ and similar instructions
 * ask a hook for the result of the call; a function that the hook does not know ends the program. Each instruction makes at most
 * one value, and what is copied from the stack is removed from it, so memory and time are linear in the length of the pickle. */
#include "runtime/weights/pickle.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16, LONGEST = 1 << 26 /* bytes of a pickle: names of a million tensors */ };
struct PickleMemory {
    struct PickleMemory *next;
    size_t used, bytes;
    _Alignas(16) uint8_t memory[];
};
typedef struct PickleMachine {
    Pickle *pickle;
    const uint8_t *begin, *at, *end;
    int64_t steps;
    Pickled **stack;
    int64_t height;
    int64_t *marks;
    int64_t mark_count;
    Pickled **memo;
    int64_t memo_capacity, memo_next;
} PickleMachine;

static _Noreturn void damaged(const PickleMachine *m, const char *what)
{
    mgpu_fail(MGPU_BAD_INPUT, "%s: %s; the file is damaged, or no file of torch.save", m->pickle->path, what);
}

/* ---- values */
void *mgpu_pickle_memory(Pickle *p, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (!p->memory || p->memory->bytes - p->memory->used < bytes) {
        size_t capacity = bytes > CHUNK ? bytes : CHUNK;
        struct PickleMemory *more = mgpu_allocate(1, sizeof *more + capacity);
        *more = (struct PickleMemory){p->memory, 0, capacity};
        p->memory = more;
    }
    p->memory->used += bytes;
    return p->memory->memory + p->memory->used - bytes;
}

void mgpu_free_pickled(Pickle *p)
{
    for (struct PickleMemory *r = p->memory, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    p->memory = NULL;
}

Pickled *mgpu_new_pickled(Pickle *p, PickledKind kind)
{
    Pickled *v = mgpu_pickle_memory(p, sizeof *v);
    v->kind = kind;
    return v;
}

const Pickled *mgpu_pickled_item(const Pickled *list, int64_t i)
{
    return list && list->kind == PICKLED_LIST && i < list->length ? list->items[i] : NULL;
}

const Pickled *mgpu_pickled_member(const Pickled *dict, const char *key)
{
    for (int64_t i = 0; dict && dict->kind == PICKLED_DICT && i < dict->length; i += 2)
        if (dict->items[i]->kind == PICKLED_TEXT && strcmp(dict->items[i]->text, key) == 0)
            return dict->items[i + 1];
    return NULL;
}

static Pickled *text_value(PickleMachine *m, PickledKind kind, const uint8_t *begin, int64_t length)
{
    Pickled *v = mgpu_new_pickled(m->pickle, kind);
    char *text = mgpu_pickle_memory(m->pickle, (size_t)length + 1);
    memcpy(text, begin, (size_t)length);
    v->text = text;
    v->length = length;
    return v;
}

static Pickled *whole_value(PickleMachine *m, PickledKind kind, int64_t whole)
{
    Pickled *v = mgpu_new_pickled(m->pickle, kind);
    v->whole = whole;
    return v;
}

static void append(PickleMachine *m, Pickled *list, Pickled *item)
{
    if (list->length == list->capacity) {
        int64_t capacity = list->capacity ? 2 * list->capacity : 4;
        Pickled **items = mgpu_pickle_memory(m->pickle, (size_t)capacity * sizeof *items);
        if (list->length)
            memcpy(items, list->items, (size_t)list->length * sizeof *items);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->length++] = item;
}

/* ---- the stack */
static void push(PickleMachine *m, Pickled *v) { MGPU_PUSH(m->stack, m->height, v); }

static int64_t floor_of(const PickleMachine *m) { return m->mark_count ? m->marks[m->mark_count - 1] : 0; }

static Pickled *top(PickleMachine *m)
{
    if (m->height <= floor_of(m))
        damaged(m, "its pickle takes more than there is");
    return m->stack[m->height - 1];
}

static Pickled *pop(PickleMachine *m)
{
    Pickled *v = top(m);
    m->height--;
    return v;
}

static void push_mark(PickleMachine *m) { MGPU_PUSH(m->marks, m->mark_count, m->height); }

static int64_t pop_mark(PickleMachine *m)
{
    if (!m->mark_count)
        damaged(m, "its pickle takes more than there is");
    return m->marks[--m->mark_count];
}

static Pickled *list_of(PickleMachine *m, PickledKind kind, int64_t begin)
{
    if (begin < floor_of(m) || m->height < begin || (kind == PICKLED_DICT && (m->height - begin) % 2))
        damaged(m, "its pickle takes more than there is");
    Pickled *list = mgpu_new_pickled(m->pickle, kind);
    for (int64_t i = begin; i < m->height; i++)
        append(m, list, m->stack[i]);
    m->height = begin;
    return list;
}

/* Moves what is on the stack from `begin` on into the list or dictionary below it. */
static void add_items(PickleMachine *m, PickledKind kind, int64_t begin)
{
    int64_t count = m->height - begin;
    if (begin < floor_of(m) + 1 || count < 0 || (kind == PICKLED_DICT && count % 2))
        damaged(m, "its pickle takes more than there is");
    Pickled *list = m->stack[begin - 1];
    for (int64_t i = begin; i < m->height && list->kind == kind; i++) /* an object made by a hook does not change */
        append(m, list, m->stack[i]);
    m->height = begin;
}

/* ---- data in the pickle */
static const uint8_t *take(PickleMachine *m, uint64_t bytes)
{
    if (bytes > (uint64_t)(m->end - m->at))
        damaged(m, "its pickle is truncated");
    if (bytes > (uint64_t)(LONGEST - (m->at - m->begin)))
        damaged(m, "its pickle is longer than 64 MiB");
    m->at += bytes;
    return m->at - bytes;
}

static uint64_t number(PickleMachine *m, int bytes)
{
    const uint8_t *p = take(m, (uint64_t)bytes);
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

static Pickled *line_of(PickleMachine *m, PickledKind kind)
{
    const uint8_t *begin = m->at, *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    take(m, end ? (uint64_t)(end + 1 - begin) : UINT64_MAX);
    return text_value(m, kind, begin, end - begin);
}

static Pickled *sized(PickleMachine *m, PickledKind kind, int length_bytes)
{
    uint64_t length = number(m, length_bytes);
    const uint8_t *begin = take(m, length);
    return text_value(m, kind, begin, (int64_t)length);
}

/* Reads a little-endian two's complement number of any length. One of more than 64 bits stays bytes. */
static Pickled *long_value(PickleMachine *m, int length_bytes)
{
    Pickled *v = sized(m, PICKLED_BYTES, length_bytes);
    if (v->length > 8)
        return v;
    uint64_t bits = v->length && (v->text[v->length - 1] & 0x80) ? UINT64_MAX : 0;
    for (int64_t i = v->length - 1; i >= 0; i--)
        bits = bits << 8 | (uint8_t)v->text[i];
    return whole_value(m, PICKLED_WHOLE, (int64_t)bits);
}

static Pickled *real_value(PickleMachine *m)
{
    const uint8_t *p = take(m, 8);
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    Pickled *v = mgpu_new_pickled(m->pickle, PICKLED_REAL);
    memcpy(&v->real, &bits, sizeof v->real);
    return v;
}

/* Reads protocol 0: "12", "12L", and "00" and "01" for False and True. */
static Pickled *digits_value(PickleMachine *m)
{
    Pickled *v = line_of(m, PICKLED_TEXT);
    bool boolean = strcmp(v->text, "00") == 0 || strcmp(v->text, "01") == 0;
    return whole_value(m, boolean ? PICKLED_BOOL : PICKLED_WHOLE, strtoll(v->text, NULL, 10));
}

static Pickled *name_value(PickleMachine *m, const Pickled *module, const Pickled *name)
{
    if (module->kind != PICKLED_TEXT || name->kind != PICKLED_TEXT)
        damaged(m, "its pickle names something by what is no text");
    char *text = mgpu_format("%s.%s", module->text, name->text);
    Pickled *v = text_value(m, PICKLED_NAME, (const uint8_t *)text, (int64_t)strlen(text));
    free(text);
    return v;
}

/* ---- the memo: numbered values */
static void put(PickleMachine *m, uint64_t i)
{
    if (i > (uint64_t)m->steps) /* each instruction adds at most one number */
        damaged(m, "its pickle numbers its values beyond its length");
    if ((int64_t)i >= m->memo_capacity) {
        int64_t capacity = 2 * (int64_t)i + 64;
        m->memo = mgpu_resize(m->memo, (size_t)capacity * sizeof *m->memo);
        memset(m->memo + m->memo_capacity, 0, (size_t)(capacity - m->memo_capacity) * sizeof *m->memo);
        m->memo_capacity = capacity;
    }
    m->memo[i] = top(m);
    m->memo_next = (int64_t)i + 1 > m->memo_next ? (int64_t)i + 1 : m->memo_next;
}

static Pickled *get(PickleMachine *m, uint64_t i)
{
    if (i >= (uint64_t)m->memo_capacity || !m->memo[i])
        damaged(m, "its pickle uses a value that it did not make");
    return m->memo[i];
}

static uint64_t line_number(PickleMachine *m)
{
    Pickled *v = line_of(m, PICKLED_TEXT);
    return strtoull(v->text, NULL, 10);
}

/* ---- calls */
static Pickled *call(PickleMachine *m, const Pickled *function, const Pickled *arguments)
{
    if (function->kind != PICKLED_NAME)
        damaged(m, "its pickle calls what has no name");
    Pickled *v = m->pickle->call(m->pickle, function->text, arguments);
    if (!v)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s: its pickle would call %s, and nothing of a file is executed here; a file that holds tensors and "
                  "dictionaries alone is "
                  "written by torch.save(model.state_dict(), FILE)",
                  m->pickle->path, function->text);
    return v;
}

static Pickled *persistent(PickleMachine *m, const Pickled *id)
{
    Pickled *v = m->pickle->persistent ? m->pickle->persistent(m->pickle, id) : NULL;
    if (!v)
        damaged(m, "its pickle names something beside it that is no storage of a tensor");
    return v;
}

/* Returns the value of an instruction that pushes one value from the pickle, or NULL for other instructions. */
static Pickled *constant(PickleMachine *m, uint8_t code)
{
    switch (code) {
    case 'N': return mgpu_new_pickled(m->pickle, PICKLED_NONE);
    case 0x88: return whole_value(m, PICKLED_BOOL, 1);
    case 0x89: return whole_value(m, PICKLED_BOOL, 0);
    case 'I':
    case 'L': return digits_value(m);
    case 'J': return whole_value(m, PICKLED_WHOLE, (int32_t)number(m, 4));
    case 'K': return whole_value(m, PICKLED_WHOLE, (int64_t)number(m, 1));
    case 'M': return whole_value(m, PICKLED_WHOLE, (int64_t)number(m, 2));
    case 0x8a: return long_value(m, 1);
    case 0x8b: return long_value(m, 4);
    case 'G': return real_value(m);
    case 'F': {
        Pickled *v = line_of(m, PICKLED_REAL);
        v->real = strtod(v->text, NULL);
        return v;
    }
    case 'S':
    case 'V': return line_of(m, PICKLED_TEXT);
    case 'X': return sized(m, PICKLED_TEXT, 4);
    case 0x8c: return sized(m, PICKLED_TEXT, 1);
    case 0x8d: return sized(m, PICKLED_TEXT, 8);
    case 'T': return sized(m, PICKLED_TEXT, 4);
    case 'U': return sized(m, PICKLED_TEXT, 1);
    case 'B': return sized(m, PICKLED_BYTES, 4);
    case 'C': return sized(m, PICKLED_BYTES, 1);
    case 0x8e:
    case 0x96: return sized(m, PICKLED_BYTES, 8);
    case ']':
    case ')':
    case 0x8f: return mgpu_new_pickled(m->pickle, PICKLED_LIST);
    case '}': return mgpu_new_pickled(m->pickle, PICKLED_DICT);
    case 'h': return get(m, number(m, 1));
    case 'j': return get(m, number(m, 4));
    case 'g': return get(m, line_number(m));
    default: return NULL;
    }
}

static void global(PickleMachine *m)
{
    Pickled *module = line_of(m, PICKLED_TEXT), *name = line_of(m, PICKLED_TEXT);
    push(m, name_value(m, module, name));
}

static void stack_global(PickleMachine *m)
{
    Pickled *name = pop(m), *module = pop(m);
    push(m, name_value(m, module, name));
}

static void reduce(PickleMachine *m, bool keywords)
{
    if (keywords)
        pop(m);
    Pickled *arguments = pop(m), *function = pop(m);
    push(m, call(m, function, arguments));
}

/* Sets the state of an object. It is dropped, since hooks do not use it. */
static void build(PickleMachine *m)
{
    pop(m);
    top(m);
}

/* Returns false at the end of the pickle. */
static bool step(PickleMachine *m)
{
    uint8_t code = *take(m, 1);
    m->steps++;
    Pickled *v = constant(m, code);
    if (v) {
        push(m, v);
        return true;
    }
    switch (code) {
    case 0x80: take(m, 1); break; /* PROTO */
    case 0x95: take(m, 8); break; /* FRAME */
    case '.': return false;
    case '(': push_mark(m); break;
    case '0': pop(m); break;
    case '1': {
        int64_t begin = pop_mark(m);
        m->height = begin < m->height ? begin : m->height;
        break;
    }
    case '2': push(m, top(m)); break;
    case 't':
    case 'l':
    case 0x91: push(m, list_of(m, PICKLED_LIST, pop_mark(m))); break;
    case 'd': push(m, list_of(m, PICKLED_DICT, pop_mark(m))); break;
    case 0x85: push(m, list_of(m, PICKLED_LIST, m->height - 1)); break; /* TUPLE1, 2, 3 */
    case 0x86: push(m, list_of(m, PICKLED_LIST, m->height - 2)); break;
    case 0x87: push(m, list_of(m, PICKLED_LIST, m->height - 3)); break;
    case 'a': add_items(m, PICKLED_LIST, m->height - 1); break;
    case 'e':
    case 0x90: add_items(m, PICKLED_LIST, pop_mark(m)); break; /* APPENDS, ADDITEMS */
    case 's': add_items(m, PICKLED_DICT, m->height - 2); break;
    case 'u': add_items(m, PICKLED_DICT, pop_mark(m)); break;
    case 'q': put(m, number(m, 1)); break;
    case 'r': put(m, number(m, 4)); break;
    case 'p': put(m, line_number(m)); break;
    case 0x94: put(m, (uint64_t)m->memo_next); break;
    case 'c': global(m); break;
    case 0x93: stack_global(m); break;
    case 'R':
    case 0x81: reduce(m, false); break; /* REDUCE, NEWOBJ */
    case 0x92: reduce(m, true); break;  /* NEWOBJ_EX */
    case 'b': build(m); break;
    case 'Q': push(m, persistent(m, pop(m))); break;
    case 'P': push(m, persistent(m, line_of(m, PICKLED_TEXT))); break;
    default:
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s: its pickle has the instruction 0x%02x, which no file of torch.save has; the file is damaged",
                  m->pickle->path, code);
    }
    return true;
}

Pickled *mgpu_read_pickle(Pickle *p, const uint8_t **at, const uint8_t *end)
{
    PickleMachine m = {.pickle = p, .begin = *at, .at = *at, .end = end};
    while (step(&m))
        ;
    m.mark_count = 0;
    Pickled *v = pop(&m);
    *at = m.at;
    free(m.stack);
    free(m.marks);
    free(m.memo);
    return v;
}
