/* elsewhere.h: what other systems call things of the language. NULL: no name that is known. */
#ifndef MGPU_DSL_ELSEWHERE_H
#define MGPU_DSL_ELSEWHERE_H

#include <stdbool.h>

const char *type_called(const char *word);     /* "float32": f32 */
const char *function_called(const char *word); /* "Linear": dense */
const char *setting_called(const char *word);  /* "weight_decay": decay */
const char *value_called(const char *word);    /* "False": false */
const char *topic_called(const char *word);    /* "no_grad": a sentence that says what there is here */
/* "dim": axis, where that is one of a layer's parameters `names` */
const char *parameter_called(const char *word, const char *const *names, int count);
const char *any_parameter_called(const char *word);
bool is_module_elsewhere(const char *word); /* "nn": functions have such prefixes there */
#endif
