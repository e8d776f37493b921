/* words.c: numbers with units, for tables and messages of commands. */
#include "compiler/driver/command.h"
#include "runtime/view/view.h"

const char *bytes_text(double bytes)
{
    char text[32];
    return format("%s", mgpu_view_bytes(bytes, text));
}

const char *ms_text(double us)
{
    char text[32];
    return format("%s", mgpu_view_ms(us, text));
}

const char *per_second_text(double per_s)
{
    char text[32];
    return format("%s", mgpu_view_rate(per_s, text));
}
