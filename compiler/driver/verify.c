/* verify.c: `mgpuc verify`: proves the schedules of a file, one by one. */
#include "compiler/driver/command.h"
#include "compiler/verify/proof.h"

#include <string.h>

/* Rejects a NUL, because the reader would ignore bytes after it. */
static void refuse_nul(const char *file, const char *text, size_t length)
{
    const char *nul = length ? memchr(text, 0, length) : NULL, *line = text;
    if (!nul)
        return;
    Source source = {.file = file, .text = text, .length = length};
    Place at = {.source = &source, .line = 1};
    for (const char *p = text; p < nul; p++)
        if (*p == '\n') {
            at.line++;
            line = p + 1;
        }
    at.column = (int)(nul - line) + 1;
    error_at(&at, "here is a NUL character, and a schedule is text: write it anew with ./PROGRAM schedule or mgpuc --emit schedule");
}

char *read_schedules(const char *file)
{
    size_t length;
    char *text = read_file(file, &length);
    if (!text)
        fail(1, "%s cannot be read: %m", file);
    refuse_nul(file, text, length);
    return text;
}

char *cut_schedule(char *text)
{
    char *next = *text ? strstr(text + 1, "\nmgpu-schedule ") : NULL;
    if (next)
        *next++ = 0;
    return next;
}

int command_verify(const Options *options)
{
    const char *file = plain_text(options->file, false);
    for (char *at = read_schedules(options->file), *next; at; at = next) {
        next = cut_schedule(at);
        Schedule *s = schedule_read(options->file, at);
        const char *wrong = verify(s);
        if (wrong) {
            fprintf(stderr, "%s: error: %d device%s: %s\n", file, s->devices, s->devices == 1 ? "" : "s", plain_text(wrong, true));
            return 1;
        }
        printf("%s: proved for %d device%s: no two operations that may overlap touch the same bytes, no deadlock, collectives match, "
               "each sample once, every call one of the table of kernels, on the values that its digest says, every variable updated once, all phases of the program and each what its name says%s\n", file, s->devices, s->devices == 1 ? "" : "s",
               s->devices == 1 ? "" : ", all devices run one program");
    }
    printf("%s: trusted: what each kernel reads and writes (a program compiled with --arch vgpu-check checks it as it runs), and that the digests are the model's\n", file);
    return 0;
}
