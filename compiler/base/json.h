/* json.h: writes text as JSON. */
#ifndef MGPU_BASE_JSON_H
#define MGPU_BASE_JSON_H

#include "compiler/base/base.h"

void json_text(Text *, const char *); /* quoted */
#endif
