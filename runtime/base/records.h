/* records.h: reads and writes records of a text by tables. A record is a line: a word, then its fields, each a word and a value.
 *
 * A table of fields describes how each member of a structure is written. The reader is in records.c, the writer in write.c. Kinds
 * of fields that only one format has are numbered from MGPU_FIELD_KINDS on, and functions of that format read and write them. */
#ifndef MGPU_RECORDS_H
#define MGPU_RECORDS_H

#include "runtime/base/base.h"

typedef enum mgpu_field_kind {
    MGPU_FIELD_WHOLE, /* int64_t */
    MGPU_FIELD_INT,
    MGPU_FIELD_NUMBER,       /* double: the shortest text that is read as the same number */
    MGPU_FIELD_TIME,         /* double, in microseconds, with one decimal */
    MGPU_FIELD_TIMES,        /* `name_count` of them in sequence */
    MGPU_FIELD_SHARE,        /* double, from 0 to 1, with four decimals */
    MGPU_FIELD_AMOUNT,       /* double, written as an integer; if optional, not written below 1 */
    MGPU_FIELD_FLAG,         /* bool: true if the word is present */
    MGPU_FIELD_NAME,         /* without quotes if possible */
    MGPU_FIELD_TEXT,         /* in quotes */
    MGPU_FIELD_NAMES,        /* names up to the end of the record; `more`: offset of their number */
    MGPU_FIELD_TYPE,         /* an element type */
    MGPU_FIELD_TYPE_OR_NONE, /* 1 + the type; 0: no type, and the field is not written */
    MGPU_FIELD_CHOICE,       /* one of `names`, by its index */
    MGPU_FIELD_DIGEST,       /* uint32_t: eight hexadecimal digits */
    MGPU_FIELD_KINDS
} mgpu_field_kind;
typedef struct mgpu_field {
    const char *word; /* precedes the value; NULL: none */
    int kind;
    size_t at, more; /* offsets of members of the structure */
    size_t bytes;    /* of the member; INT, TYPE, CHOICE: 1 or 4 */
    bool optional;   /* not written if it has the value `usual`, and read as `usual` if it is missing */
    bool within;     /* optional, and allowed only if the field before it is present */
    int64_t usual, least;
    const char *const *names; /* of a CHOICE */
    int name_count;
    const char *what;    /* names the value in messages: "the size of a sample" */
    const char *c;       /* the member of the program's structure; for a list also the member of its length; NULL: none */
    const char *c_words; /* of a CHOICE: the prefix of its constants */
} mgpu_field;
typedef struct mgpu_record {
    const char *word;
    size_t size, list, count; /* of a list in the enclosing structure: size of an item, offsets; size 0: not a list */
    bool numbered;
    const mgpu_field *fields;
    int field_count;
    const struct mgpu_record *below;
    int below_count;
    const char *c_type, *c_list; /* names of the program's structure and of its table of them; NULL: none */
} mgpu_record;
#define MGPU_AT(type, member) .at = offsetof(type, member), .bytes = sizeof((type *)NULL)->member
#define MGPU_NAMES(list) .names = list, .name_count = MGPU_COUNT(list)
#define MGPU_LIST(type, of, items, length) .size = sizeof(type), .list = offsetof(of, items), .count = offsetof(of, length)
#define MGPU_FIELDS(list) .fields = list, .field_count = MGPU_COUNT(list)
/* These access a member by its offset. */
#define MGPU_MEMBER(type, base, at) (*(type *)((char *)(base) + (at)))
#define MGPU_MEMBER_OF(type, base, at) (*(type const *)((const char *)(base) + (at)))

/* The state of a reader. A copy of it is a position for a message, or to return to. */
typedef struct mgpu_reader mgpu_reader;
struct mgpu_reader {
    const char *at, *line_start;
    int line;
    bool plain;                                                     /* escape in names what a terminal interprets, as \x1b */
    char comment;                                                   /* the character that begins a comment after a record */
    void (*wrong)(const mgpu_reader *, const char *message);        /* reports an error at this position; does not return */
    void *(*allocate)(void *memory, size_t bytes);                  /* returns zeroed memory */
    void *memory;                                                   /* for `allocate` and `wrong` */
    void (*special)(mgpu_reader *, const mgpu_field *, void *base); /* reads kinds from MGPU_FIELD_KINDS on, and their words */
    void *context;                                                  /* for `special` */
};
_Noreturn void mgpu_wrong(const mgpu_reader *, const char *pattern, ...) MGPU_PRINTF(2, 3);
void mgpu_skip_blanks(mgpu_reader *);
bool mgpu_next_record(mgpu_reader *); /* goes to the first word of the next record; false: there is none */
bool mgpu_at_end(mgpu_reader *);      /* at the end of the record */
void mgpu_end_record(mgpu_reader *);
bool mgpu_take(mgpu_reader *, const char *text);             /* these characters */
bool mgpu_take_word(mgpu_reader *, const char *word);        /* after blanks */
void mgpu_need(mgpu_reader *, const char *text);             /* these characters, after blanks */
const char *mgpu_read_name(mgpu_reader *, const char *what); /* with or without quotes */
int64_t mgpu_read_integer(mgpu_reader *, const char *what, int64_t least, int64_t most);
int mgpu_read_int(mgpu_reader *, const char *what);       /* 0 or more */
int64_t mgpu_read_bytes(mgpu_reader *, const char *what); /* 0 to 2^62 */
double mgpu_read_number(mgpu_reader *, const char *what);
uint32_t mgpu_read_digest(mgpu_reader *);
int mgpu_read_choice(mgpu_reader *, const char *what, const char *const *names, int count); /* returns its index in `names` */
int mgpu_read_type(mgpu_reader *);                                                          /* an element type */
void mgpu_read_field(mgpu_reader *, const mgpu_field *, void *base);                        /* its value */
void mgpu_set_usual(const mgpu_field *, void *base);
int mgpu_small_member(const mgpu_field *, const void *base);           /* for kinds of 1 or 4 bytes: INT, TYPE, CHOICE */
void mgpu_read_fields(mgpu_reader *, const mgpu_record *, void *base); /* all fields of the record, in order */

/* Appends a zeroed item to a list whose capacity doubles. Increments *count and returns the list, which may have moved. */
void *mgpu_more(mgpu_reader *, void *list, int *count, size_t bytes);
#define MGPU_ADD(reader, list, count, item)                                                                                      \
    ((void)((list) = mgpu_more(reader, list, &(count), sizeof *(list))), (list)[(count)-1] = (item))

/* Maps names to numbers, in the memory of a reader. */
typedef struct mgpu_names {
    const char **keys;
    int count;
    int *slots, slot_count;
} mgpu_names;
int mgpu_name_number(const mgpu_names *, const char *name);          /* -1: it is not in the map */
bool mgpu_enter_name(mgpu_reader *, mgpu_names *, const char *name); /* assigns the next number; false: it has one */

/* ---- write.c: writes the same records */
typedef struct mgpu_writer {
    void (*put)(void *to, const char *bytes, size_t count);
    void *to;
} mgpu_writer;
mgpu_writer mgpu_file_writer(FILE *);
void mgpu_write(mgpu_writer *, const char *pattern, ...) MGPU_PRINTF(2, 3);
void mgpu_write_quoted(const char *, mgpu_writer *); /* in quotes; escapes \" and \\, and what a terminal interprets as \xHH */
void mgpu_write_name(const char *, mgpu_writer *);   /* without quotes if possible */
void mgpu_write_number(double, mgpu_writer *);       /* the shortest text that is read as the same number */
bool mgpu_field_is_usual(const mgpu_field *, const void *base);             /* false for a field without a word */
void mgpu_write_value(const mgpu_field *, const void *base, mgpu_writer *); /* without its word: " 12" */
/* Writes " word value" for each field. `special` writes a kind from MGPU_FIELD_KINDS on, with its word. */
typedef void mgpu_write_special(const mgpu_field *, const void *base, const void *context, mgpu_writer *);
void mgpu_write_fields(const mgpu_record *, const void *base, mgpu_write_special *special, const void *context, mgpu_writer *);

/* ---- memory for a reader, which is freed as a whole. Its `allocate` is mgpu_take_memory, and its `memory` is the address of a
 * list of blocks, which is initially NULL. */
typedef struct mgpu_block mgpu_block;
void *mgpu_take_memory(void *blocks, size_t bytes); /* blocks: a mgpu_block ** */
void mgpu_free_memory(mgpu_block **blocks);

const char *mgpu_plain_name(const mgpu_reader *, const char *name); /* a copy in which what a terminal interprets is escaped */
bool mgpu_is_bare_word(const char *);
bool mgpu_is_bare(char);  /* allowed in names without quotes: letters, digits, . _ - / */
int mgpu_hex_digit(char); /* the value of 0 to 9 and a to f; else -1 */
extern const char *const mgpu_dtype_names[];
enum { MGPU_DTYPES = MGPU_F64 + 1 };
#endif
