/* rules.h: which tensors of a file make a tensor of a model, where names or shapes differ. A set of rules is a text:
 *
 *     rules gpt2                                  a set, and its names; left out in a text of one set
 *         if h.0.attn.c_attn.weight [c, 3c]       the set is for files with such a tensor (any of these
 *                                                 lines); n: a number; the name may have *
 *         if general.architecture = gpt2          or such a note (GGUF)
 *         prefix transformer.                     names of the model and of the file may begin with this
 *         use llama                               the lines of another set of the library stand here
 *         say their gelu is the approximate one   what has to be known of the weights
 *         h*.qkv.weight = transpose(h.*.attn.c_attn.weight)
 *         *.q.weight, *.k.weight = split(*.qk.weight)
 *
 * On the left are names of the model, where * is any characters; on the right, the first * is what the first * on the left was,
 * and *+1 the number after it.
 * {a,b} on both sides stands for a line with each in turn. The first line that fits a name, and whose tensors the file has, makes
 * the tensor, rather one that makes the model's shape; where there is none it is the tensor of the same name. */
#ifndef MGPU_WEIGHTS_RULES_H
#define MGPU_WEIGHTS_RULES_H

#include "runtime/weights/weights.h"

/* ---- arrange.c: tensors made of others of the file, which they live as long as. NULL: the shape does not admit it */
SavedTensor *mgpu_transposed(TensorFile *, SavedTensor *, const int *order,
                             int count); /* count 0: the last two axes change places */
SavedTensor *mgpu_paired(TensorFile *, SavedTensor *, int64_t heads); /* unpaired ones as they were */
SavedTensor *mgpu_rows_of(TensorFile *, SavedTensor *, int64_t begin, int64_t end);
SavedTensor *mgpu_joined(TensorFile *, SavedTensor *const *, int count);        /* along the first axis */
SavedTensor *mgpu_reshaped(TensorFile *, SavedTensor *, const mgpu_tensor *as); /* axes of one element come and go */
SavedTensor *mgpu_unpaired(TensorFile *, SavedTensor *,
                           int64_t heads); /* rows in pairs, as llama.cpp has them -> halves, as all others do */
SavedTensor *mgpu_channels_last(TensorFile *, SavedTensor *,
                                int64_t channels); /* columns that are channels, height, width -> height, width, channels */
SavedTensor *mgpu_summed(TensorFile *, SavedTensor *const *, int count); /* in f64 */
void mgpu_mark_used(const TensorFile *, const SavedTensor *); /* and all that it is made of */

/* ---- rules.c: the text */
typedef enum SourceKind {
    SOURCE_NAME,
    SOURCE_TRANSPOSE,
    SOURCE_CONCAT,
    SOURCE_RESHAPE,
    SOURCE_UNPAIR,
    SOURCE_CHW,
    SOURCE_SUM,
    SOURCE_SPLIT
} SourceKind;
typedef struct TensorSource TensorSource;
struct TensorSource {
    SourceKind kind;
    char *name; /* NAME: of the tensor; UNPAIR, CHW: the number of heads or channels, or the note that has it */
    int order[MGPU_MAX_RANK], count; /* TRANSPOSE; count of RESHAPE: the rank that the file's has, 0: not given */
    TensorSource *first, *next;      /* what it is made of; the next of these */
};
typedef struct TensorRule TensorRule;
struct TensorRule {
    char *target[8];
    int count;
    TensorSource *source;
    TensorRule *next;
};
typedef struct Condition Condition;
struct Condition { /* a tensor of this shape, or a note of this text */
    char *name, *text;
    bool shaped;
    int rank;
    struct {
        char letter;
        int64_t times;
    } axis[MGPU_MAX_RANK];
    Condition *next;
};
typedef struct RuleSet RuleSet;
struct RuleSet {
    char *names[8], *prefixes[8];
    int name_count, prefix_count;
    char *said; /* what whoever takes such weights has to know; NULL: nothing */
    Condition *conditions;
    TensorRule *rules;
    RuleSet *next;
};
/* A set, of: a name of the library, a path, or the text itself, which has a "=". The memory is the file's. Errors end the program
 */
const RuleSet *mgpu_rules(TensorFile *, const char *text);
const RuleSet *mgpu_library_rules(TensorFile *); /* the sets of the library, one after the other */
typedef struct RulesFile {
    const char *name, *text;
} RulesFile;
extern const RulesFile mgpu_rules_files[]; /* dsl/stdlib/, by embed.sh; ends with a row of NULL */

/* ---- match.c */
enum { MGPU_MOST_STARS = 8 };
typedef struct Capture {
    const char *begin;
    int length;
} Capture; /* what a * of a pattern is */
bool mgpu_fits_pattern(const char *pattern, const char *name, Capture *captured); /* captured: of MGPU_MOST_STARS */
char *mgpu_filled(const char *pattern, const Capture *captured);                  /* the pattern with these; the caller frees */
bool mgpu_rules_are_for(const RuleSet *, const TensorFile *);
#endif
