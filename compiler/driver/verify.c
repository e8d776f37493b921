/* verify.c: `mgpuc verify`: proves the schedules of a file or of a program, one by one. */
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
    error_at(&at,
             "here is a NUL character, and a schedule is text: write it anew with ./PROGRAM schedule or mgpuc --emit schedule");
}

static bool is_program(const char *bytes, size_t length) { return length > 4 && memcmp(bytes, "\177ELF", 4) == 0; }

/* Returns the schedules that a program or library of mgpuc carries. */
static const uint64_t **program_images(const char *file, const char *bytes, size_t length, int *count)
{
    int64_t words = (int64_t)length / 8, from = 0;
    uint64_t *aligned = NEW_ARRAY(uint64_t, (int)words + 1);
    memcpy(aligned, bytes, (size_t)words * sizeof *aligned);
    const uint64_t **list = NULL;
    *count = 0;
    for (const uint64_t *image; (image = mgpu_find_image(aligned, words, &from));)
        APPEND(list, *count, image);
    if (!*count)
        fail(1, "%s is a program without a schedule, which all that this mgpuc compiles have: compile it anew",
             plain_text(file, false));
    return list;
}

static char *read_any(const char *file, size_t *length)
{
    char *bytes = read_file(file, length);
    if (!bytes)
        fail(1, "%s cannot be read: %m", file);
    if (!is_program(bytes, *length))
        refuse_nul(file, bytes, *length);
    return bytes;
}

char *read_schedules(const char *file)
{
    size_t length;
    char *bytes = read_any(file, &length);
    if (!is_program(bytes, length))
        return bytes;
    Text all = {0};
    int count;
    const uint64_t **images = program_images(file, bytes, length, &count);
    for (int i = 0; i < count; i++)
        schedule_write(schedule_unpack(file, images[i]), &all);
    return all.data;
}

char *cut_schedule(char *text)
{
    char *next = *text ? strstr(text + 1, "\nmgpu-schedule ") : NULL;
    if (next)
        *next++ = 0;
    return next;
}

/* Prints the verifier's result, and returns true if the schedule is proved. of: the image that it was unpacked from, or NULL. */
static bool prove(const char *file, const Schedule *s, const uint64_t *of)
{
    char digits[65];
    const char *wrong = verify(s), *line = wrong && verify_line() ? format(":%d", verify_line()) : "",
               *image = of ? format(", image %s", mgpu_image_digest(of, 8, digits)) : "";
    if (wrong)
        fprintf(stderr, "%s%s: error: %d device%s%s: %s\n", file, line, s->devices, s->devices == 1 ? "" : "s", image,
                plain_text(wrong, true));
    else
        printf(
            "%s: proved for %d device%s%s: no two operations that may overlap touch the same bytes, no deadlock, collectives match, "
            "each sample once, every call one of the table of kernels, on the values that its digest says, every variable updated once, all phases of the program and each what its name says%s\n",
            file, s->devices, s->devices == 1 ? "" : "s", image, s->devices == 1 ? "" : ", all devices run one program");
    return !wrong;
}

int command_verify(const Options *options)
{
    const char *file = plain_text(options->file, false);
    size_t length;
    char *bytes = read_any(options->file, &length);
    bool program = is_program(bytes, length);
    int count = 0;
    const uint64_t **images = program ? program_images(options->file, bytes, length, &count) : NULL;
    for (int i = 0; i < count; i++)
        if (!prove(file, schedule_unpack(options->file, images[i]), images[i]))
            return 1;
    Source source = {.file = options->file, .text = bytes, .length = length};
    int read = 0;
    Schedule **schedules = program ? NULL : schedules_read(&source, &read);
    for (int i = 0; i < read; i++)
        if (!prove(file, schedules[i], NULL))
            return 1;
    printf(
        "%s: trusted: what each kernel reads and writes (a program compiled with --arch vgpu-check checks it as it runs), and that the digests are the model's\n",
        file);
    return 0;
}
