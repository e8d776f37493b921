/* foreign_names.h: names of PyTorch, Keras and NumPy -> the language's names. Functions return NULL for unknown names. */
#ifndef MGPU_DSL_ELSEWHERE_H
#define MGPU_DSL_ELSEWHERE_H

#include <stdbool.h>

const char *type_called(const char *word);     /* "float32" -> "f32" */
const char *function_called(const char *word); /* "Linear" -> "dense" */
const char *setting_called(const char *word);  /* "weight_decay" -> "decay" */
const char *value_called(const char *word);    /* "False" -> "false" */
const char *topic_called(const char *word);    /* "no_grad" -> a sentence about what to write instead */
/* "dim" -> "axis" if the layer's parameters `names` have it. */
const char *parameter_called(const char *word, const char *const *names, int count);
const char *any_parameter_called(const char *word);
bool is_module_elsewhere(const char *word); /* true for "nn", a prefix of functions in PyTorch */
#endif
