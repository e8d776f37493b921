/* text.h: converts between text and the elements that a model reads: characters or tokens. */
#ifndef MGPU_RUNTIME_RUN_TEXT_H
#define MGPU_RUNTIME_RUN_TEXT_H

#include "runtime/base/base.h"
#include "runtime/data/sets.h"
#include "runtime/data/vocabulary.h"

typedef struct TextCode { /* the set of elements */
    const mgpu_input *input;
    bool numbers;            /* the text is token numbers, since there is no vocabulary */
    const Words *characters; /* the text of each class; NULL: texts are digits of numbers */
    Vocabulary *vocabulary;  /* the vocabulary of text and tokens */
} TextCode;
typedef struct Elements {
    int64_t *of, count;
} Elements;

void mgpu_add_element(Elements *, int64_t element);
/* where: names the prompt in messages: "" or "line 2 of the prompts: " */
void mgpu_read_prompt(const TextCode *, Elements *, const char *prompt, int64_t bytes, const char *where);
bool mgpu_may_follow(const TextCode *, int64_t element);                    /* the training texts have it */
bool mgpu_ends_text(const TextCode *, int64_t element);                     /* by the vocabulary */
char *mgpu_spell_element(const TextCode *, int64_t element, size_t *count); /* returns its bytes; the caller frees */

typedef struct Screen {
    FILE *file;
    bool terminal;
    char held[8]; /* an incomplete character, whose other bytes are in later elements */
} Screen;
void mgpu_show_text(Screen *, const char *bytes, size_t count, bool last);
#endif
