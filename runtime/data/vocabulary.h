/* vocabulary.h: a byte-level BPE vocabulary, for the files that read it and that make tokens of text. */
#ifndef MGPU_RUNTIME_DATA_VOCABULARY_H
#define MGPU_RUNTIME_DATA_VOCABULARY_H

#include "runtime/base/options.h"
#include "runtime/data/data.h"

typedef struct Merge { uint64_t pair; uint32_t rank, token; } Merge; /* pair: left << 32 | right; rank 0: an empty slot */
typedef struct SpecialToken { char *text; size_t length; int64_t token; } SpecialToken;

/* How text is cut into words. GPT2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * LLAMA3: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * QWEN2: likewise, with \p{N} */
typedef enum WordPattern { WORDS_GPT2, WORDS_LLAMA3, WORDS_QWEN2 } WordPattern;

struct Vocabulary {
    char *folder;
    WordTable spelling; /* of tokens, bytes as printable characters */
    int64_t *number;    /* by spelling */
    Merge *merges;      /* by open addressing */
    uint64_t merge_slots;
    uint32_t byte_token[256];
    char byte_spelling[256][3];
    SpecialToken *specials; int special_count;
    bool begins[256];   /* a special token */
    WordPattern pattern;
    bool whole_words;   /* a word that is a token is that one, whatever the merges say */
    int64_t largest;    /* number of a token */
};

/* vocabulary.c: the folder that --vocabulary or a reader of the data block names, or, with of_init, that of --init if it holds a
 * vocabulary, which is then said; NULL: none is known. The caller frees */
char *mgpu_vocabulary_folder(const mgpu_program *, const Options *, bool of_init);
/* pretokens.c: where the word that begins at i ends */
int64_t mgpu_word_end(WordPattern, const uint8_t *text, int64_t bytes, int64_t i);
/* bpe.c: for those who read files. place: of messages */
void mgpu_add_token(Vocabulary *, const char *spelling, int64_t number);
void mgpu_add_special(Vocabulary *, const char *text, int64_t number);
void mgpu_begin_merges(Vocabulary *, int64_t most, const char *where); /* after the tokens */
void mgpu_add_merge(Vocabulary *, const char *left, size_t left_bytes, const char *right, size_t right_bytes, uint32_t rank,
                    const char *place);
Vocabulary *mgpu_read_vocabulary(const char *folder, const char *where);
/* tokenizer.c */
void mgpu_read_tokenizer(Vocabulary *, const char *path, const char *where);
#endif
