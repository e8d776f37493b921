/* resources.h: the system resources of an open model. */
#ifndef MGPU_RESOURCES_H
#define MGPU_RESOURCES_H

#include "runtime/base/context.h"

struct Resources *mgpu_resources_new(void);   /* NULL without memory */
void mgpu_resources_free(struct Resources *); /* of a context that has no resources yet */
/* Called when the context has failed or is idle: ends its threads, closes its files, frees its memory. */
void mgpu_resources_release(Context *);
#endif
