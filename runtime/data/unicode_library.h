/* unicode_library.h: properties and normal forms of characters (unicode.c), for normalize.c and pretokens.c. */
#ifndef MGPU_RUNTIME_DATA_UNICODE_LIBRARY_H
#define MGPU_RUNTIME_DATA_UNICODE_LIBRARY_H

#include "runtime/data/vocabulary.h"

bool mgpu_is_control(uint32_t);
bool mgpu_is_mark(uint32_t, bool any);          /* not any: those that take no room of their own, as BERT's rules know them */
int mgpu_lower_of(uint32_t, uint32_t lower[2]);    /* -> how many */
bool mgpu_breaks_between(uint32_t, uint32_t, int32_t *state); /* graphemes; *state: 0 at first */
/* of valid UTF-8 */
void mgpu_normal_form(Bytes *to, const uint8_t *text, int64_t bytes, bool composed, bool compatible);
#endif
