/* dump_records.h: the form of a Model in dumps: a table of records, each a table of fields, which dump_model.c writes and
 * reads. */
#ifndef MGPU_DUMP_RECORDS_H
#define MGPU_DUMP_RECORDS_H

#include "compiler/ir/dump.h"

enum { /* kinds of fields that only dumps have; fields with a word are not written if they have their default value */
       TYPE = MGPU_FIELD_KINDS, /* Dtype, and at `more` Shape */
       SHAPE_OF,
       QUANTITY,
       INDEX, /* an int: index into the list of Model whose length is at `more`; default 0: counted from 1 */
       WORDS,
       INDICES,
       ITEMS, /* lists; `more`: their length; WORDS are in quotes */
       ORDER, /* of the axes of the Shape at `more` */
       PLACE_OF,
       PLACED /* a flag: the Placement on data is number `more` of PLACEMENT_WORD */
};
extern const mgpu_record RECORDS[]; /* the first is the model's own line */
extern const int RECORD_COUNT;
extern const char *const UNIT_NAME[UNIT_SHARE + 1];
#endif
