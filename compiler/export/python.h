/* python.h: writes names, texts and numbers of Python. */
#ifndef MGPU_COMPILER_EXPORT_PYTHON_H
#define MGPU_COMPILER_EXPORT_PYTHON_H

#include "compiler/export/export.h"

const char *python_word(const char *label);            /* Makes an identifier from the label. */
const char *python_name(Map *used, const char *label); /* Makes an identifier that is not in use. */
const char *python_text(const char *);                 /* Quotes the text. */
const char *python_number(double, Dtype);
const char *python_dtype(Dtype);                      /* "torch.float32" */
const char *python_tuple(const int64_t *, int count); /* "(3, 5)" */
const char *python_each(const int64_t *, int count);  /* "(3, 5)", or "3" if all are 3 */
#endif
