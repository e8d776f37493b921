/* elsewhere.h: what other systems call things of the language. NULL: no name that is known. */
#ifndef MGPU_DSL_ELSEWHERE_H
#define MGPU_DSL_ELSEWHERE_H

const char *type_called(const char *word);     /* "float32": f32 */
const char *function_called(const char *word); /* "Linear": dense */
const char *setting_called(const char *word);  /* "weight_decay": decay */
#endif
