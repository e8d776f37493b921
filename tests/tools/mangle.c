/* mangle.c: the same tokens in another layout, for tests of `mgpuc fmt`: mangle SEED <TEXT. Blanks, line breaks and
 * comments "# n" come between tokens at random; blanks that were there stay, and so do comments and their order. */
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;
static unsigned below(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

static size_t token_length(const char *s)
{
    static const char *const LONG[] = {"...", "|>", "**", "//", "==", "!=", "<=", ">="};
    if (*s == '#')
        return strcspn(s, "\n");
    if (*s == '"') {
        size_t n = 1;
        while (s[n] && s[n] != '"')
            n += s[n] == '\\' ? 2 : 1;
        return n + 1;
    }
    size_t n = 0;
    if (isdigit((unsigned char)*s)) {
        while (isdigit((unsigned char)s[n]) || s[n] == '_' || (s[n] == '.' && isdigit((unsigned char)s[n + 1])))
            n++;
        size_t e = n + (s[n] == 'e' || s[n] == 'E');
        if (e > n && (isdigit((unsigned char)s[e]) || ((s[e] == '+' || s[e] == '-') && isdigit((unsigned char)s[e + 1]))))
            n = e + 1;
    }
    while (isalnum((unsigned char)s[n]) || s[n] == '_')
        n++;
    if (n)
        return n;
    for (unsigned k = 0; k < sizeof LONG / sizeof *LONG; k++)
        if (strncmp(s, LONG[k], strlen(LONG[k])) == 0)
            return strlen(LONG[k]);
    return 1;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    size_t length = fread(text, 1, sizeof text - 1, stdin);
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    unsigned breaks = 2 + below(20), notes = 4 + below(60);
    for (size_t at = 0, serial = 0; at < length;) {
        size_t blank = strspn(text + at, " \t\r\n");
        int kept = blank > 0;
        if (kept && below(4) == 0)
            fwrite(text + at, 1, blank, stdout);
        else if (kept)
            printf("%*s", (int)(1 + below(3)), "");
        at += blank;
        if (at >= length)
            break;
        if (below(notes) == 0)
            printf("%s# note %zu  \n%s", below(2) ? "\n" : " ", ++serial, below(3) ? "" : "\n\n\n");
        else if (below(breaks) == 0)
            printf("%s%*s", below(4) ? "\n" : "\n\n\r\n", (int)below(9), "");
        else if (below(6) == 0)
            printf("%s", below(3) ? "  " : "\t");
        size_t n = token_length(text + at);
        fwrite(text + at, 1, n, stdout);
        if (text[at] == '#')
            putchar('\n');
        at += n;
    }
    return 0;
}
