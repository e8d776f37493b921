/* tuning_file.c: keeps the measurements of `--tune` from run to run, as lines "KEY<tab>NUMBERS<tab>MICROSECONDS" in the file
 * tuned.txt in mgpuc's folder of compiled objects. Whole lines are appended, so several programs may write at the same time. The
 * last line with a key is used. Lines that cannot be parsed are ignored. */
#include "runtime/base/base.h"
#include "runtime/base/folder_owner.h"
#include "runtime/cuda/tuning_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct Tuned {
    char *path; /* NULL: nothing is kept */
    char *text; /* contents of the file */
    char *added;
    size_t length;
};

static char *folder_of_cache(void) /* NULL: none is wanted, or known */
{
    const char *folder = getenv("MGPUC_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (folder && *folder)
        return strcmp(folder, "off") == 0 ? NULL : mgpu_format("%s", folder);
    if (xdg && *xdg == '/')
        return mgpu_format("%s/mgpuc", xdg);
    return home && *home ? mgpu_format("%s/.cache/mgpuc", home) : NULL;
}

static char *read_whole(const char *path)
{
    size_t length = 0, capacity = 0, part;
    char *text = mgpu_allocate(1, 1);
    FILE *f = fopen(path, "re");
    while (f) {
        capacity = length + (1 << 16);
        text = mgpu_resize(text, capacity + 1);
        part = fread(text + length, 1, capacity - length, f);
        length += part;
        text[length] = 0;
        if (part == 0)
            break;
    }
    if (f)
        fclose(f);
    return text;
}

Tuned *mgpu_tuned_open(void)
{
    Tuned *t = mgpu_allocate(1, sizeof *t);
    char *folder = folder_of_cache();
    static atomic_flag said = ATOMIC_FLAG_INIT; /* warn once, not for each device */
    char why[4200];
    bool others = folder && mgpu_others_may_write(folder, why, sizeof why);
    if (others && !atomic_flag_test_and_set(&said))
        mgpu_say(
            "%s: warning: %s/tuned.txt is not used: others may write there (%s); MGPUC_CACHE=DIR names a folder that only you may write",
            program_invocation_short_name, folder, why);
    if (folder && !others)
        t->path = mgpu_format("%s/tuned.txt", folder);
    free(folder);
    t->text = t->path ? read_whole(t->path) : mgpu_allocate(1, 1);
    return t;
}

static bool read_numbers(const char *text, uint64_t *number, int count)
{
    for (int i = 0; i < count; i++) {
        char *end;
        number[i] = strtoull(text, &end, 16);
        if (end != text + 16 || *end != (i + 1 < count ? ' ' : '\t'))
            return false;
        text = end + 1;
    }
    return true;
}

bool mgpu_tuned_find(const Tuned *t, const char *key, uint64_t *number, int count)
{
    size_t length = strlen(key);
    bool found = false;
    uint64_t read[count];
    for (const char *line = t->text, *end; (end = strchr(line, '\n')); line = end + 1)
        if (strncmp(line, key, length) == 0 && line[length] == '\t' && read_numbers(line + length + 1, read, count)) {
            memcpy(number, read, sizeof read);
            found = true;
        }
    return found;
}

void mgpu_tuned_add(Tuned *t, const char *key, const uint64_t *number, int count, double us)
{
    char *line = mgpu_format("%s\t", key);
    for (int i = 0; i < count; i++) {
        char *longer = mgpu_format("%s%016llx%s", line, (unsigned long long)number[i], i + 1 < count ? " " : "");
        free(line);
        line = longer;
    }
    char *whole = mgpu_format("%s\t%.3f\n", line, us);
    size_t length = strlen(whole);
    t->added = mgpu_resize(t->added, t->length + length);
    memcpy(t->added + t->length, whole, length);
    t->length += length;
    free(line);
    free(whole);
}

void mgpu_tuned_close(Tuned *t)
{
    if (t->path && t->length) {
        for (char *slash = strchr(t->path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
            *slash = 0;
            mkdir(t->path, strchr(slash + 1, '/') ? 0777 : 0700); /* errors show up when the file is opened */
            *slash = '/';
        }
        int file = open(t->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (file < 0 || write(file, t->added, t->length) != (ssize_t)t->length)
            mgpu_say("%s: warning: %s: what --tune measured cannot be kept: %s", program_invocation_short_name, t->path,
                     strerror(errno));
        if (file >= 0)
            close(file);
    }
    free(t->path);
    free(t->text);
    free(t->added);
    free(t);
}
