/* vocabulary.h: vocabularies, and encoding text as their tokens; for the files that read and use them. */
#ifndef MGPU_RUNTIME_DATA_VOCABULARY_H
#define MGPU_RUNTIME_DATA_VOCABULARY_H

#include "runtime/base/options.h"
#include "runtime/data/data.h"

typedef struct Merge {
    uint64_t pair;
    uint32_t rank, token;
} Merge; /* pair: left << 32 | right; rank 0: an empty slot */
/* normalized: it is searched for in normalized text; strips: it includes the blanks on that side */
typedef struct SpecialToken {
    char *text;
    size_t length;
    int64_t token;
    bool normalized, strips_left, strips_right;
} SpecialToken;

/* How text is split into words. GPT2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *  LLAMA3: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 *  QWEN2: as LLAMA3, with \p{N} */
typedef enum WordPattern { WORDS_GPT2, WORDS_LLAMA3, WORDS_QWEN2 } WordPattern;

/* Steps that text passes before the model, in this order: normalizers (normalize.c), then splitters (pretokens.c). */
typedef enum StepKind {
    STEP_NFC,
    STEP_NFD,
    STEP_NFKC,
    STEP_NFKD,
    STEP_LOWERCASE,
    STEP_STRIP_ACCENTS,
    STEP_STRIP,          /* blanks at the ends: strips_left, strips_right */
    STEP_PREPEND,        /* puts `text` before a text that is not empty */
    STEP_REPLACE,        /* replaces `text` by `by` */
    STEP_REPLACE_BLANKS, /* replaces two or more blanks by `by` */
    STEP_CLEAN,          /* BERT: removes control characters, makes all blanks spaces */
    STEP_CHINESE,        /* BERT: puts blanks around ideographs */
    STEP_BERT_ACCENTS,   /* BERT: decomposes, removes nonspacing marks */
    STEP_CHARSMAP,       /* SentencePiece: a table of replacements, `text` of size `bytes` */
    STEP_PATTERN,        /* splits by `pattern` */
    STEP_PREFIX,         /* puts a blank before a part that does not begin with one */
    /* blanks become `text`, which begins every word; prepends: also the first word of a text, or with `always` of a part */
    STEP_METASPACE,
    STEP_BLANKS,      /* splits at blanks, which are dropped */
    STEP_PUNCTUATION, /* BERT: each punctuation character is a word */
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
    WordTable spelling; /* spelling of each token; in BYTE_BPE bytes are printable characters */
    int64_t *number;    /* token of each spelling */
    double *score;      /* for each spelling, in UNIGRAM */
    Merge *merges;      /* hash table with open addressing */
    uint64_t merge_slots;
    uint32_t byte_token[256]; /* in BYTE_BPE; in others the tokens <0x00> to <0xFF> if byte_fallback */
    char byte_spelling[256][3];
    SpecialToken *specials;
    int special_count;
    bool begins[256]; /* for each byte: some special token begins with it */
    Step *normalizers, *cuts;
    int normalizer_count, cut_count;
    int64_t unknown;    /* the token of unknown text; -1 if there is none */
    bool joins_unknown; /* adjacent unknown characters are one token */
    bool byte_fallback;
    char *blank;                                                     /* represents a blank in spellings, or NULL */
    enum { FIRST_KEPT, FIRST_STRIPPED, FIRST_WITHOUT_BLANKS } first; /* what decoding does with a text's leading blanks */
    char *prefix;                                                    /* WORDPIECE: begins tokens that do not begin a word */
    bool cleans_up;                                                  /* WORDPIECE: decoding drops blanks before punctuation */
    int64_t longest_word, longest_token;                             /* in characters, for WORDPIECE; in bytes */
    double least_score;
    int64_t *begin;
    int begin_count; /* tokens that begin every text */
    int64_t *end;
    int end_count;    /* tokens that end a generated text */
    bool whole_words; /* a word that is a token needs no merges */
    int64_t largest;  /* the largest token */
};

/* vocabulary.c: Returns the folder that --vocabulary or a reader of the data block names, or, with of_init, that of --init if it
 * has a vocabulary, which is then reported. NULL if there is none. The caller frees. */
char *mgpu_vocabulary_folder(const mgpu_program *, const RunOptions *, bool of_init);
/* unicode.c: as in the tokenizers package */
bool mgpu_is_blank(uint32_t);       /* White_Space */
bool mgpu_is_punctuation(uint32_t); /* as BERT defines it */
/* a UTF-8 text that grows; its owner frees it */
typedef struct Bytes {
    uint8_t *data;
    int64_t count, capacity;
} Bytes;
void mgpu_add_bytes(Bytes *, const void *, int64_t count);
/* normalize.c: Applies all normalizers. Returns false if the byte at *wrong is not UTF-8. The caller frees. */
bool mgpu_normalize(const Vocabulary *, const uint8_t *text, int64_t bytes, Bytes *to, int64_t *wrong);
/* pretokens.c: Returns the end of the word that begins at i. */
int64_t mgpu_word_end(WordPattern, const uint8_t *text, int64_t bytes, int64_t i);
typedef void TakeWord(void *state, const uint8_t *text, int64_t bytes);
/* Splits a part of a text and passes its words to TakeWord. first: the part begins the text. Words are in `kept` or in the
 * text. */
void mgpu_cut_words(const Vocabulary *, const uint8_t *text, int64_t bytes, bool first, Bytes **kept, int *kept_count, TakeWord,
                    void *state);
/* pieces.c: encoding a word in WORDPIECE and UNIGRAM */
typedef struct TokenList {
    uint32_t *tokens;
    int64_t count;
} TokenList;
void mgpu_add_to_list(TokenList *, int64_t token);
void mgpu_match_pieces(const Vocabulary *, const uint8_t *word, int64_t bytes, TokenList *);
void mgpu_find_likeliest(const Vocabulary *, const uint8_t *word, int64_t bytes, TokenList *);
/* bpe.c: for the readers of files. place: prefix of messages */
int64_t mgpu_token_of(const Vocabulary *, const char *spelling, size_t length); /* -1 if there is none */
void mgpu_add_token(Vocabulary *, const char *spelling, int64_t number);
SpecialToken *mgpu_add_special(Vocabulary *, const char *text, int64_t number);
void mgpu_begin_merges(Vocabulary *, int64_t most, const char *where); /* after all tokens are added */
void mgpu_add_merge(Vocabulary *, const char *left, size_t left_bytes, const char *right, size_t right_bytes, uint32_t rank,
                    const char *place);
Vocabulary *mgpu_read_vocabulary(const char *folder, const char *where);
/* tokenizer.c */
void mgpu_read_tokenizer(Vocabulary *, const char *path, const char *where);
/* tokenizer_steps.c: reads the normalizers, splitters, decoder and initial tokens of tokenizer.json. mgpu_refuse_tokenizer
 * exits. */
typedef struct TokenizerFile {
    Vocabulary *vocabulary;
    const char *where, *path;
} TokenizerFile;
_Noreturn void mgpu_refuse_tokenizer(const TokenizerFile *, const char *what, const char *which);
void mgpu_read_normalizer(const TokenizerFile *, const Json *);
bool mgpu_read_cuts(const TokenizerFile *, const Json *); /* true if words become bytes */
void mgpu_read_decoder(const TokenizerFile *, const Json *);
void mgpu_read_begin(const TokenizerFile *, const Json *);
#endif
