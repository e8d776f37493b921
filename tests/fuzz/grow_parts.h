/* grow_parts.h: what the files of the generator share: grow.c, the frame of a model; grow_*.c, its parts. */
#ifndef MGPU_FUZZ_GROW_PARTS_H
#define MGPU_FUZZ_GROW_PARTS_H

#include "compiler/base/base.h"
#include "tests/fuzz/fuzz.h"

enum { RANK = 5, MOST_VALUES = 96, MOST_ELEMENTS = 240 };

typedef enum Kind { FLOAT, HALF, WHOLE, FLAGS } Kind; /* the model's float; bf16 or f16; whole numbers of any type; bool */

typedef struct Value {
    const char *name;
    int rank;
    int64_t e[RANK];
    bool sample; /* has a value for every sample */
    bool once;   /* a weight: in a loop, too, there is one of it */
    Kind kind;
} Value;

typedef struct Grower {
    Random r;
    Text layers, inputs, body, losses;
    Value pool[MOST_VALUES];
    int count, names;
    int input_values;                   /* the first of the pool depend on inputs alone */
    int classes, tokens, token_classes; /* of `label`; length and classes of `token`; 0: there is none */
    bool ignore, whole_batch, smooth;
    int groups; /* 0: no statistics of groups */
    int accumulate, batch, losses_count, metrics, outputs;
    bool has_block, has_gate, has_walk;
    int scans;       /* that are open */
    int free_values; /* in a scan: the first of the pool, which depend on nothing that is carried */
    bool traps;      /* a step may have a loss that is not finite */
    bool graph;      /* the other style: grow_graph.c */
    bool halves;     /* in it, casts to bf16 and f16 */
    bool evaluation; /* in it, what other software has, all of it seen in outputs */
} Grower;

int below(Grower *, int n); /* 0 .. n - 1 */
bool chance(Grower *, int percent);
int64_t elements(const Value *);
Value *pick(Grower *);                                         /* a float of the pool; the younger ones more often */
Value *pick_of(Grower *, unsigned kinds, int least, int most); /* kinds: bits 1 << Kind; of such a rank; NULL: none was found */
const char *new_name(Grower *, const char *letter);
const char *shape_list(const Value *);                       /* "[2, 3]" */
bool broadcasts(const Value *a, const Value *b, Value *out); /* out: the shape of both together */
bool define(Grower *, Value shape, const char *expression);  /* a new value; false: it would be too large */
Value *pick_rank(Grower *, int least, int most);             /* NULL: none was found */
Value *keep(Grower *, Value); /* a new value; NULL: it would be too large. The caller writes its statement. */
Value like(const Value *);
Value of_rank1(int64_t n, bool sample);
const char *activation(Grower *);
void grow_statement(Grower *);
#define SAY(...) text_add(&g->body, __VA_ARGS__)

void grow_train(Grower *, Text *);                               /* grow_train.c: the train block */
const char *grow_graph(Grower *, uint64_t seed, int statements); /* grow_graph.c: the text of a model in the other style */
const char *grow_wide(Grower *, uint64_t seed);                  /* grow_wide.c: ... in the third */
void grow_graph_statement(Grower *);

/* ---- grow_layers.c, grow_rows.c, grow_scans.c: each adds a statement; false: nothing is fit for it */
typedef bool Growth(Grower *);
Growth grow_conv, grow_conv_transpose, grow_pool, grow_image, grow_norm, grow_noise, grow_sequence, grow_lookup, grow_weight,
    grow_loop, grow_shared, grow_users_layer, grow_whole, grow_state, grow_cube;
Growth grow_gather, grow_scatter, grow_scatter_own, grow_largest, grow_bilinear;
Growth grow_scan, grow_choice, grow_recurrent, grow_walk, grow_ctc;
Growth grow_slice, grow_reshape, grow_transpose, grow_view, grow_dense, grow_einsum, grow_matmul;
const char *filled(const char *form, const char *a, const char *b); /* `$` and `#` of the form are a and b */
/* both: the shape of a form that has both */
bool define_of(Grower *, const Value *a, const Value *b, Value both, const char *form);
/* two that broadcast, of such kinds; *out: the shape of both, the kind of the first */
bool pick_pair(Grower *, unsigned first, unsigned second, const Value **a, const Value **b, Value *out);
/* grow_types.c */
Growth grow_whole_input, grow_to_whole, grow_whole_math, grow_compare, grow_logic, grow_from_whole, grow_half, grow_from_half;
#endif
