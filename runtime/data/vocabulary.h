/* vocabulary.h: a vocabulary and how text is made its tokens, for the files that read it and that use it. */
#ifndef MGPU_RUNTIME_DATA_VOCABULARY_H
#define MGPU_RUNTIME_DATA_VOCABULARY_H

#include "runtime/base/options.h"
#include "runtime/data/data.h"

typedef struct Merge { uint64_t pair; uint32_t rank, token; } Merge; /* pair: left << 32 | right; rank 0: an empty slot */
/* normalized: it is looked for in the text that the normalizers have made; strips: blanks on that side are its own */
typedef struct SpecialToken {
    char *text;
    size_t length;
    int64_t token;
    bool normalized, strips_left, strips_right;
} SpecialToken;

/* How text is cut into words. GPT2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * LLAMA3: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * QWEN2: likewise, with \p{N} */
typedef enum WordPattern { WORDS_GPT2, WORDS_LLAMA3, WORDS_QWEN2 } WordPattern;

/* What becomes of a text before the model sees it, one after the other: normalize.c, then pretokens.c. */
typedef enum StepKind {
    STEP_NFC,
    STEP_NFD,
    STEP_NFKC,
    STEP_NFKD,
    STEP_LOWERCASE,
    STEP_STRIP_ACCENTS,
    STEP_STRIP,          /* blanks at its ends: strips_left, strips_right */
    STEP_PREPEND,        /* `text`, unless it is empty */
    STEP_REPLACE,        /* `text` by `by` */
    STEP_REPLACE_BLANKS, /* two blanks or more by `by` */
    STEP_CLEAN,          /* of BERT: no control characters, all blanks are spaces */
    STEP_CHINESE,        /* of BERT: blanks around ideographs */
    STEP_BERT_ACCENTS,   /* of BERT: decomposed, without marks that take no room */
    STEP_CHARSMAP,       /* of SentencePiece: a table of replacements, `text` with `bytes` */
    STEP_PATTERN,        /* cut by `pattern` */
    STEP_PREFIX,         /* a blank before what does not begin with one */
    STEP_METASPACE,   /* blanks become `text`, which begins every word; prepends: also the first word of a text or (always) of a
                         part */
    STEP_BLANKS,      /* cut at blanks, which are left out */
    STEP_PUNCTUATION, /* of BERT: each of these characters is a word */
} StepKind;
typedef struct Step {
    StepKind kind;
    char *text, *by;
    size_t bytes;
    WordPattern pattern;
    bool strips_left, strips_right, prepends, always, cuts;
} Step;

typedef enum VocabularyModel { BYTE_BPE, CHARACTER_BPE, WORDPIECE, UNIGRAM } VocabularyModel;

struct Vocabulary {
    char *folder;
    VocabularyModel model;
    WordTable spelling; /* of tokens; of BYTE_BPE, bytes as printable characters */
    int64_t *number;    /* by spelling */
    double *score;      /* likewise, of UNIGRAM */
    Merge *merges;      /* by open addressing */
    uint64_t merge_slots;
    uint32_t byte_token[256]; /* of BYTE_BPE; of others the tokens <0x00> to <0xFF>, if byte_fallback */
    char byte_spelling[256][3];
    SpecialToken *specials; int special_count;
    bool begins[256];   /* a special token */
    Step *normalizers, *cuts; int normalizer_count, cut_count;
    int64_t unknown;    /* the token of what has none; -1: there is none */
    bool joins_unknown; /* neighbours that have no token are one */
    bool byte_fallback;
    char *blank;        /* what stands for a blank in spellings; NULL: nothing does */
    enum {
        FIRST_KEPT,
        FIRST_STRIPPED,
        FIRST_WITHOUT_BLANKS
    } first;            /* of the blanks of a text's first token, when tokens become text */
    char *prefix;       /* of WORDPIECE: of tokens that do not begin a word */
    bool cleans_up;     /* of WORDPIECE: no blanks before punctuation, when tokens become text */
    int64_t longest_word, longest_token; /* of WORDPIECE in characters; in bytes */
    double least_score;
    int64_t *begin; int begin_count; /* tokens that begin every text */
    int64_t *end; int end_count;     /* after which a generated text ends */
    bool whole_words;   /* a word that is a token is that one, whatever the merges say */
    int64_t largest;    /* number of a token */
};

/* vocabulary.c: the folder that --vocabulary or a reader of the data block names, or, with of_init, that of --init if it holds a
 * vocabulary, which is then said; NULL: none is known. The caller frees */
char *mgpu_vocabulary_folder(const mgpu_program *, const Options *, bool of_init);
/* unicode.c: of characters, as the tokenizers package has them */
bool mgpu_is_blank(uint32_t);       /* White_Space */
bool mgpu_is_punctuation(uint32_t); /* BERT's */
/* a text in pieces, which its owner frees; of UTF-8 */
typedef struct Bytes { uint8_t *data; int64_t count, room; } Bytes;
void mgpu_add_bytes(Bytes *, const void *, int64_t count);
/* normalize.c: the text after all normalizers; false: byte *wrong is no UTF-8. The caller frees */
bool mgpu_normalize(const Vocabulary *, const uint8_t *text, int64_t bytes, Bytes *to, int64_t *wrong);
/* pretokens.c: where the word that begins at i ends */
int64_t mgpu_word_end(WordPattern, const uint8_t *text, int64_t bytes, int64_t i);
typedef void TakeWord(void *state, const uint8_t *text, int64_t bytes);
/* each word of a part of a text; first: the part begins the text. The words' bytes are in `kept`, or in the text */
void mgpu_cut_words(const Vocabulary *, const uint8_t *text, int64_t bytes, bool first, Bytes **kept, int *kept_count, TakeWord,
                    void *state);
/* pieces.c: the tokens of a word of WORDPIECE and UNIGRAM */
typedef struct TokenList { uint32_t *tokens; int64_t count, room; } TokenList;
void mgpu_add_to_list(TokenList *, int64_t token);
void mgpu_match_pieces(const Vocabulary *, const uint8_t *word, int64_t bytes, TokenList *);
void mgpu_find_likeliest(const Vocabulary *, const uint8_t *word, int64_t bytes, TokenList *);
/* bpe.c: for those who read files. place: of messages */
int64_t mgpu_token_of(const Vocabulary *, const char *spelling, size_t length); /* -1: there is none */
void mgpu_add_token(Vocabulary *, const char *spelling, int64_t number);
SpecialToken *mgpu_add_special(Vocabulary *, const char *text, int64_t number);
void mgpu_begin_merges(Vocabulary *, int64_t most, const char *where); /* after the tokens */
void mgpu_add_merge(Vocabulary *, const char *left, size_t left_bytes, const char *right, size_t right_bytes, uint32_t rank,
                    const char *place);
Vocabulary *mgpu_read_vocabulary(const char *folder, const char *where);
/* tokenizer.c */
void mgpu_read_tokenizer(Vocabulary *, const char *path, const char *where);
/* tokenizer_steps.c: what tokenizer.json says of normalizers, of how text is cut, and of what begins it. refuse: does not return
 */
typedef struct TokenizerFile { Vocabulary *vocabulary; const char *where, *path; } TokenizerFile;
_Noreturn void mgpu_refuse_tokenizer(const TokenizerFile *, const char *what, const char *which);
void mgpu_read_normalizer(const TokenizerFile *, const Json *);
bool mgpu_read_cuts(const TokenizerFile *, const Json *); /* whether words become bytes */
void mgpu_read_decoder(const TokenizerFile *, const Json *);
void mgpu_read_begin(const TokenizerFile *, const Json *);
#endif
