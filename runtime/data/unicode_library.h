/* unicode_library.h: properties and normal forms of characters (unicode.c), for normalize.c and pretokens.c. */
#ifndef MGPU_RUNTIME_DATA_UNICODE_LIBRARY_H
#define MGPU_RUNTIME_DATA_UNICODE_LIBRARY_H

#include "runtime/data/vocabulary.h"

bool mgpu_is_control(uint32_t);
bool mgpu_is_mark(uint32_t, bool any);                        /* with `any` all marks, else BERT's nonspacing marks */
int mgpu_lower_of(uint32_t, uint32_t lower[2]);               /* returns the number of characters */
bool mgpu_breaks_between(uint32_t, uint32_t, int32_t *state); /* grapheme boundaries; *state: initially 0 */
/* The text must be valid UTF-8. */
void mgpu_normal_form(Bytes *to, const uint8_t *text, int64_t bytes, bool composed, bool compatible);
#endif
