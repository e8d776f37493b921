/* dump_records.h: what a dump says of a Model: a table of records, each a table of fields, which dump_model.c writes and reads. */
#ifndef MGPU_DUMP_RECORDS_H
#define MGPU_DUMP_RECORDS_H

#include "compiler/ir/dump.h"

typedef enum FieldKind {
    WHOLE, INT, SEED, NUMBER, FLAG, WORD, DTYPE, CHOICE, TYPE, SHAPE_OF, QUANTITY, /* a value each; TYPE: Dtype and Shape */
    INDEX,                      /* an int: of the list whose length is said at `more`; none 0: counted from 1 */
    WORDS, INDICES, ITEMS,      /* lists; `more`: their length */
    ORDER,                      /* of the axes of the Shape at `more` */
    PLACE_OF
} FieldKind;
typedef struct Field {
    const char *word;           /* NULL: comes before the fields with words */
    FieldKind kind;
    size_t at, more;            /* of members of the record's structure; INDEX, INDICES: more is of Model */
    int64_t none, least;        /* none: the usual value, which is not written */
    const char *const *names;   /* CHOICE */
    int name_count;
} Field;
typedef struct Record {
    const char *word;
    size_t size, list, count;   /* of a list in the structure above; size 0: fields of that structure itself */
    bool numbered;
    const Field *fields; int field_count;
    const struct Record *below; int below_count;
} Record;
extern const Record RECORDS[];              /* the first is the model's own line */
extern const int RECORD_COUNT;
extern const char *const UNIT_NAME[UNIT_SHARE + 1];

/* a member of a structure */
#define MEMBER(type, base, at) (*(type *)((char *)(base) + (at)))
#define MEMBER_OF(type, base, at) (*(type const *)((const char *)(base) + (at)))
#endif
