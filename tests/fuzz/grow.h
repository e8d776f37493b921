/* grow.h: random models. grow_model(seed) is the text of a valid program: grow.c says what may be in it. */
#ifndef MGPU_FUZZ_GROW_H
#define MGPU_FUZZ_GROW_H

#include <stdbool.h>
#include <stdint.h>

typedef enum GrowStyle {
    GROW_ANY,
    GROW_NETWORK /* grow.c */,
    GROW_GRAPH /* grow_graph.c */,
    GROW_WIDE /* grow_wide.c */,
    GROW_EVALUATION /* as GRAPH, of what other software has */
} GrowStyle;

typedef struct GrowOptions {
    bool smooth;    /* nothing whose derivative jumps or is cut: differences show what the gradient must be */
    int statements; /* of the model, about; 0: as it comes */
    GrowStyle style;
} GrowOptions;
const char *grow_model(uint64_t seed, const GrowOptions *);
const char *grow_hostile(uint64_t seed, const char *text); /* grow_names.c: a model with names that C would take for its own */
#endif
