/* tuned.h: what has been measured on this machine, by what it was measured for; kept from run to run. */
#ifndef MGPU_TUNED_H
#define MGPU_TUNED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Tuned Tuned;
Tuned *mgpu_tuned_open(void);   /* never NULL; where nothing can be kept, nothing is found */
/* a key is a line without tabs; number[count]: what was chosen */
bool mgpu_tuned_find(const Tuned *, const char *key, uint64_t *number, int count);
void mgpu_tuned_add(Tuned *, const char *key, const uint64_t *number, int count, double us);
void mgpu_tuned_close(Tuned *); /* keeps what was added; a warning if that fails */
#endif
