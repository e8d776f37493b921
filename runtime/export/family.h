/* family.h: families of models as others have them, for the files of this folder (dsl/stdlib/families.rules). */
#ifndef MGPU_EXPORT_FAMILY_H
#define MGPU_EXPORT_FAMILY_H

#include "runtime/export/export.h"
#include "runtime/weights/rules.h"

/* ---- family.c: the text */
typedef struct Term Term;
struct Term { /* WORD or WORD(term, ...) */
    char *word;
    Term *args[4];
    int count;
    bool call;
};
typedef struct FamilyLine {
    char *name, *text; /* of a computation: what it binds, and the line; else a key, and its value */
    Term *term;        /* of a computation */
    const char *each;  /* the pattern of blocks that it is for; NULL: it is outside of them */
} FamilyLine;
typedef struct Family {
    char *name, *rules, *gguf, *gguf_act;
    FamilyLine *computes, *config, *notes;
    int compute_count, config_count, note_count;
} Family;
extern const RulesFile mgpu_family_files[]; /* dsl/stdlib/families.rules, by embed.sh */
/* those of the library; the memory is the file's */
Family *mgpu_families(TensorFile *, int *count);
typedef struct Block { /* of those that a line is for; a pattern of two stars has blocks in stages */
    int stage, number;
} Block;
/* word: a tensor of the family, or what its tensors begin with, below the block where it begins with "*."; the caller frees */
char *mgpu_in_block(const char *word, const char *each, Block);

/* ---- names.c: weights of the model under names and in shapes of others */
typedef struct Piece {
    int weight;             /* of the view */
    int64_t from, rows, at; /* rows of that, from one on; which are rows `at` on of what is exported, as the model has its axes */
} Piece;
typedef struct Renamed {
    char *name;
    SavedTensor *tensor;
    Piece piece[8];
    int piece_count;
} Renamed;
typedef struct Names {
    TensorFile owner; /* of their memory */
    const Export *export;
    Renamed *list;
    int count, room;
    uint8_t *data;    /* of the weight that was read last, */
    int held;         /* 1 + its number; 0: none */
    const char *left; /* the first weight that has no name there; NULL: all have */
} Names;
typedef struct Naming {
    const RuleSet *rules;
    bool (*admits)(void *context, const char *name);   /* NULL: all that rules make, and nothing else */
    int64_t (*heads)(void *context, const char *note); /* of unpair */
    void *context;
} Naming;
void mgpu_rename_weights(Names *, const Export *, const Naming *);
const Renamed *mgpu_renamed(const Names *, const char *name); /* NULL: there is none */
void mgpu_close_names(Names *);

/* ---- computes.c: is what the model computes what the family computes? */
typedef struct FamilyFact {
    const char *name, *text; /* text NULL: a number */
    double number;
} FamilyFact;
typedef struct Computed {
    FamilyFact fact[32];
    int fact_count;
    int image;   /* the row that the first convolution reads, where the family has one */
    char *wrong; /* NULL: it is; else the first difference, in words */
} Computed;
Computed mgpu_compare_with(const Family *, const Names *);
void mgpu_add_fact(Computed *, const char *name, const char *text, double number);
const FamilyFact *mgpu_family_fact(const Computed *, const char *name); /* NULL: the family has no such thing */

/* ---- hf.c */
typedef struct Published { /* the model as one of a family */
    const Export *export;
    TensorFile library; /* of the families */
    const Family *family;
    Names names;
    Computed computed;
    char *tokenizer; /* its folder; NULL: none is known */
} Published;
void mgpu_publish(Published *, const Export *); /* what it cannot be ends the program */
void mgpu_close_published(Published *);
/* the value of a line: JSON, as text; the caller frees. NULL: the model does not say it */
char *mgpu_value_of(const Published *, const char *text);
int64_t mgpu_whole_value(const Published *, const char *text); /* 0: it is none */

/* ---- picture.c */
void mgpu_write_image_processor(const Published *, const char *folder); /* or says why there is none */

/* ---- tokenizer.c */
int64_t mgpu_special_token(const char *folder, bool end); /* the token that begins or ends texts; -1: none is known */
void mgpu_copy_tokenizer(const Export *, const char *folder, const char *to);
#endif
