/* text.h: texts and the elements that a model reads of them, characters or tokens. */
#ifndef MGPU_RUNTIME_RUN_TEXT_H
#define MGPU_RUNTIME_RUN_TEXT_H

#include "runtime/base/base.h"
#include "runtime/data/sets.h"
#include "runtime/data/vocabulary.h"

typedef struct TextCode { /* which elements there are */
    const mgpu_input *input;
    bool numbers;            /* texts are tokens' numbers: no vocabulary is known */
    const Words *characters; /* by class; NULL: the digits of its number */
    Vocabulary *vocabulary;  /* of text and tokens */
} TextCode;
typedef struct Elements {
    int64_t *of, count;
} Elements;

void mgpu_add_element(Elements *, int64_t element);
/* where: which prompt it is, for messages: "" or "line 2 of the prompts: " */
void mgpu_read_prompt(const TextCode *, Elements *, const char *prompt, int64_t bytes, const char *where);
bool mgpu_may_follow(const TextCode *, int64_t element);                    /* texts that trained the model have it */
bool mgpu_ends_text(const TextCode *, int64_t element);                     /* the vocabulary says that nothing follows it */
char *mgpu_spell_element(const TextCode *, int64_t element, size_t *count); /* its bytes; the caller frees */

typedef struct Screen {
    FILE *file;
    bool terminal;
    char held[8]; /* the beginning of a character, of which elements may be parts */
} Screen;
void mgpu_show_text(Screen *, const char *bytes, size_t count, bool last);
#endif
