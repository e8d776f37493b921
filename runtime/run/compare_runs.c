/* compare_runs.c: `compare A B`, of programs and of mgpuc: whether two runs are the same, by their logs or their saves. The exit
 * status is that of cmp: 0: they are equal, 1: they differ, 2: they cannot be compared. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/terminal.h"
#include "runtime/report/runs.h"
#include "runtime/run/commands.h"
#include "runtime/run/compare_runs.h"
#include "runtime/save/checkpoint.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Wrong input has status 2 here, since 1 says that the runs differ. */
static void leave(int status) { _exit(status == MGPU_BAD_INPUT ? MGPU_BAD_USAGE : status); }

static bool is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

int mgpu_compare_runs(const char *a, const char *b)
{
    char *text;
    size_t length;
    mgpu_speak_as(NULL, true, leave);
    bool saves = is_folder(a), differ;
    if (saves != is_folder(b))
        mgpu_fail(MGPU_BAD_USAGE, "compare takes two folders of saves or two logs; %s is a folder, %s is none", saves ? a : b,
                  saves ? b : a);
    FILE *out = mgpu_begin_text(&text, &length);
    if (saves) {
        differ = mgpu_saves_differ(a, b, out);
    } else {
        Sheet sheet = {0};
        differ = mgpu_logs_differ(mgpu_run_read(a, &sheet), mgpu_run_read(b, &sheet), &sheet, out);
        mgpu_sheet_end(&sheet);
    }
    mgpu_end_text(out);
    char *plain = mgpu_plain_text(text, true);
    fputs(plain ? plain : "", stdout);
    free(plain);
    free(text);
    return differ;
}

int mgpu_compare(const RunOptions *o)
{
    if (o->operand_count != 2)
        mgpu_fail(MGPU_BAD_USAGE, "compare takes two folders of saves or two logs, as in %s compare a.save b.save", o->program);
    return mgpu_compare_runs(o->operands[0], o->operands[1]);
}
