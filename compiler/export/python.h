/* python.h: words of Python. */
#ifndef MGPU_COMPILER_EXPORT_PYTHON_H
#define MGPU_COMPILER_EXPORT_PYTHON_H

#include "compiler/export/export.h"

const char *python_word(const char *label);             /* a name like the label */
const char *python_name(Map *used, const char *label); /* a name that is not taken yet, like the label */
const char *python_text(const char *);                 /* in quotes */
const char *python_number(double, Dtype);
const char *python_dtype(Dtype);                      /* "torch.float32" */
const char *python_tuple(const int64_t *, int count); /* "(3, 5)" */
const char *python_each(const int64_t *, int count);  /* likewise, or 3 where all are 3 */
#endif
