/* json.c: writes text as JSON by the runtime's writer. */
#include "compiler/base/json.h"
#include "runtime/base/base.h"

#include <stdlib.h>

void json_text(Text *t, const char *s)
{
    char *json;
    size_t length;
    FILE *f = mgpu_begin_text(&json, &length);
    mgpu_json_write_text(f, s);
    mgpu_end_text(f);
    text_bytes(t, json, length);
    free(json);
}
