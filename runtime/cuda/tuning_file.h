/* tuning_file.h: measurements of this machine by key, kept from run to run. */
#ifndef MGPU_TUNED_H
#define MGPU_TUNED_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Tuned Tuned;
Tuned *mgpu_tuned_open(void); /* never NULL; if nothing can be kept, it is empty */
/* A key is a line without tabs. number[count]: what was measured and chosen. */
bool mgpu_tuned_find(const Tuned *, const char *key, uint64_t *number, int count);
void mgpu_tuned_add(Tuned *, const char *key, const uint64_t *number, int count, double us);
void mgpu_tuned_close(Tuned *); /* appends what was added to the file; warns if that fails */
#endif
