/* tokenize.c: FOLDER <TEXTS: the tokens of texts by the vocabulary of a folder, and the text that they are, for
 * tests/reference/tokens.py. A text is a line with its bytes in hexadecimal digits; so is what the tokens are, after them in each
 * line of the result. */
#include "runtime/base/base.h"
#include "runtime/data/vocabulary.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    Vocabulary *v = argc == 2 ? mgpu_read_vocabulary(argv[1], "") : NULL;
    while (v && (length = getline(&line, &room, stdin)) > 0) {
        uint8_t *text = mgpu_allocate((size_t)length, 1), dtype;
        int64_t bytes = length / 2, count;
        for (int64_t i = 0; i < bytes; i++)
            text[i] = (uint8_t)strtoul((char[]){line[2 * i], line[2 * i + 1], 0}, NULL, 16);
        void *tokens = mgpu_encode_text(v, text, bytes, &dtype, &count);
        char *made;
        size_t made_bytes;
        FILE *f = mgpu_begin_text(&made, &made_bytes);
        for (int64_t i = 0; i < count; i++) {
            int64_t token = (int64_t)mgpu_to_double(tokens, dtype, i);
            printf("%lld ", (long long)token);
            mgpu_spell_token(v, token, i == 0, f);
        }
        mgpu_end_text(f);
        for (size_t i = 0; i < made_bytes; i++)
            printf("%02x", (unsigned char)made[i]);
        printf("\n");
        free(text);
        free(tokens);
        free(made);
    }
    if (v)
        mgpu_close_vocabulary(v);
    free(line);
    return !v;
}
