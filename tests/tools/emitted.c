/* emitted.c: emitted FILE...: is each text C or CUDA C as mgpuc writes it (tests/fuzz/emitted.h)? emitted --own: the names of
 * its own that mgpuc writes, one a line; --known: words that C and its headers know. */
#include "tests/fuzz/emitted.h"
#include "tests/fuzz/hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_whole(const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    *length = 0;
    for (size_t room = 1 << 16, got = 1; f && got; room *= 2) {
        text = realloc(text, room + 1);
        if (!text)
            break;
        got = fread(text + *length, 1, room - *length, f);
        *length += got;
    }
    if (f)
        fclose(f);
    if (text)
        text[*length] = 0;
    return text;
}

int main(int argc, char **argv)
{
    int bad = argc < 2;
    if (argc == 2 && strncmp(argv[1], "--", 2) == 0) {
        const char *const *list = strcmp(argv[1], "--own") == 0 ? EMITTED_WORDS : HOSTILE_WORDS;
        for (int i = 0; list[i]; i++)
            puts(list[i]);
        return 0;
    }
    for (int i = 1; i < argc; i++) {
        size_t length;
        char *text = read_whole(argv[i], &length), problem[256];
        const char *why = text && length ? emitted_problem(text, length, problem, sizeof problem) : "it is empty";
        if (why)
            printf("%s: %s\n", argv[i], why), bad = 1;
        free(text);
    }
    return bad;
}
