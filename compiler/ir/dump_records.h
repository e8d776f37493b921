/* dump_records.h: what a dump says of a Model: a table of records, each a table of fields, which dump_model.c writes and reads. */
#ifndef MGPU_DUMP_RECORDS_H
#define MGPU_DUMP_RECORDS_H

#include "compiler/ir/dump.h"

enum { /* kinds of fields that dumps alone have; of one with a word, the usual value is not written */
    TYPE = MGPU_FIELD_KINDS,    /* Dtype, and at `more` Shape */
    SHAPE_OF, QUANTITY,
    INDEX,                      /* an int: of the list of Model whose length is said at `more`; usual 0: counted from 1 */
    WORDS, INDICES, ITEMS,      /* lists; `more`: their length; WORDS are in quotes */
    ORDER,                      /* of the axes of the Shape at `more` */
    PLACE_OF
};
extern const mgpu_record RECORDS[];         /* the first is the model's own line */
extern const int RECORD_COUNT;
extern const char *const UNIT_NAME[UNIT_SHARE + 1];
#endif
