/* words.c: numbers with units, as the tables and messages of commands have them. */
#include "compiler/driver/command.h"
#include "runtime/view/view.h"

const char *bytes_text(double bytes)
{
    char text[32];
    return format("%s", mgpu_view_bytes(bytes, text));
}

const char *ms_text(double us)
{
    return format("%.*f", us >= 1e3 || us <= 0 ? 2 : us >= 100 ? 3 : 4, us / 1e3);
}

const char *per_second_text(double per_s)
{
    return per_s >= 1e3 ? grouped((int64_t)(per_s + .5)) : format("%.1f", per_s);
}
