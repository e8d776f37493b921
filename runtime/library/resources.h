/* resources.h: what an open model has of the system. */
#ifndef MGPU_RESOURCES_H
#define MGPU_RESOURCES_H

#include "runtime/base/context.h"

struct Resources *mgpu_resources_new(void); /* NULL: no memory */
void mgpu_resources_free(struct Resources *); /* of a context that has taken nothing */
/* once the context has failed, or nothing of it is under way any more: ends its threads, closes its files, frees its memory */
void mgpu_resources_release(Context *);
#endif
