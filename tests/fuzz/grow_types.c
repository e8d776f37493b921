/* grow_types.c: statements of random graphs (grow_graph.c) about whole numbers of every type, bool, bf16 and f16.
 * Every grow_x adds one, or returns false if nothing in the pool is fit for it. */
#include "tests/fuzz/grow_parts.h"

#include <string.h>

static const char *const WHOLES[] = {"i32", "u8", "i64", "u32", "i16", "i8", "u16", "i32"};

bool grow_whole_input(Grower *g)
{
    Value v = {.rank = below(g, 4), .sample = true, .kind = chance(g, 20) ? FLAGS : WHOLE};
    for (int i = 0; i < v.rank; i++)
        v.e[i] = 1 + below(g, 6);
    if (elements(&v) > MOST_ELEMENTS)
        return false;
    v.name = new_name(g, "i");
    text_add(&g->inputs, "    input %s: %s%s\n", v.name, v.kind == FLAGS ? "bool" : WHOLES[below(g, COUNT(WHOLES))],
             shape_list(&v));
    g->pool[g->count++] = v;
    return true;
}

bool grow_to_whole(Grower *g)
{
    static const char *const FORMS[] = {"i32($ * 3)",  "i32(floor($ * 2))", "u8(abs($) * 40)", "u8($ * 40)",   "i64($ * 1000)",
                                        "i16($ * 20)", "i8($ * 30)",        "u16($ * 300)",    "u32($ * 1e5)", "i32($ * 1e10)",
                                        "i8($ * 1e3)", "i32(round($))",     "i32($ > 0.1)",    "i32($ // 0.3)"};
    if (chance(g, 15)) {
        int n = 1 + below(g, 6);
        return define(g, (Value){.rank = 1, .e = {n}, .kind = WHOLE},
                      chance(g, 50) ? format("arange(%d)", n) : format("(arange(%d) * 2 + 1) %% 5 - %d", n, below(g, 3)));
    }
    if (g->classes && chance(g, 20))
        return define(g, (Value){.sample = true, .kind = WHOLE}, chance(g, 50) ? "i32(label)" : "i64(label) - 1");
    const Value *x = pick(g);
    Value y = like(x);
    y.kind = WHOLE;
    return define(g, y, filled(FORMS[below(g, COUNT(FORMS))], x->name, ""));
}

bool grow_whole_math(Grower *g)
{
    static const char *const ONE[] = {"-$",
                                      "abs($)",
                                      "$ // 2",
                                      "$ % 5",
                                      "$ * 3 + 1",
                                      "$ // 3 * 2",
                                      "$ % 3 - 1",
                                      "i32($)",
                                      "i64($)",
                                      "u32($)",
                                      "u8($)",
                                      "i8($)",
                                      "i16($)",
                                      "u16($)",
                                      "$ * $",
                                      "minimum($, 3)",
                                      "maximum($, 1)",
                                      "where($ > 2, $, 1)",
                                      "$ - 7",
                                      "bit_not($)",
                                      "shift_left($, 2)",
                                      "shift_right($, 1)",
                                      "bit_and($, 6)"};
    static const char *const TWO[] = {"$ + #",
                                      "$ - #",
                                      "$ * #",
                                      "minimum($, #)",
                                      "maximum($, #)",
                                      "where($ > #, $, #)",
                                      "$ // (# % 5 + 1)",
                                      "$ % (# % 7 + 1)",
                                      "where($ == #, $ + 1, #)",
                                      "bit_and($, #)",
                                      "bit_or($, #)",
                                      "bit_xor($, #)",
                                      "shift_left($, # % 9)",
                                      "shift_right($, # % 40)"};
    const Value *a, *b;
    Value out;
    if (chance(g, 50)) {
        a = pick_of(g, 1u << WHOLE, 0, RANK);
        return a && define(g, like(a), filled(ONE[below(g, COUNT(ONE))], a->name, ""));
    }
    return pick_pair(g, 1u << WHOLE, 1u << WHOLE, &a, &b, &out) && define_of(g, a, b, out, TWO[below(g, COUNT(TWO))]);
}

bool grow_compare(Grower *g)
{
    static const char *const FLOATS[] = {"$ > #", "$ <= #", "$ < 0.1", "$ >= -0.3", "$ > # + 0.2"};
    static const char *const NUMBERS[] = {"$ == #", "$ != #", "$ < #", "$ >= #", "$ == 1", "$ % 2 == # % 2"};
    const Value *a, *b;
    Value out;
    bool whole = chance(g, 60);
    unsigned kinds = 1u << (whole ? WHOLE : FLOAT);
    if (!pick_pair(g, kinds, kinds, &a, &b, &out))
        return false;
    out.kind = FLAGS;
    return define_of(g, a, b, out, whole ? NUMBERS[below(g, COUNT(NUMBERS))] : FLOATS[below(g, COUNT(FLOATS))]);
}

bool grow_logic(Grower *g)
{
    static const char *const FORMS[] = {"$ and #",      "$ or #", "$ or not #",         "not $ and #",
                                        "$ == #",       "$ != #", "where($, #, not #)", "maximum($, #)",
                                        "minimum($, #)"};
    const Value *a, *b;
    Value out;
    return pick_pair(g, 1u << FLAGS, 1u << FLAGS, &a, &b, &out) && define_of(g, a, b, out, FORMS[below(g, COUNT(FORMS))]);
}

bool grow_from_whole(Grower *g)
{
    static const char *const OF_WHOLE[] = {
        "f32($ % 17) / 7 - 1", "f32($ % 5) * #",     "# + f32($) % 3",  "where($ % 2 == 0, #, 0.5 * #)",
        "# * f32($ == 1)",     "where($ > 1, #, 0)", "# ** f32($ % 3)", "# + (-1.5) ** f32($ % 4)"};
    static const char *const OF_FLAGS[] = {"f32($) * #", "where($, #, 1 - #)", "where($, 0, #)", "where(not $, exp(#), #)",
                                           "where($, #, #) - f32($)"};
    const Value *a, *b;
    Value out;
    if (chance(g, 15) && (a = pick_of(g, 1u << WHOLE, 0, RANK - 1))) {
        out = like(a);
        out.kind = FLAGS;
        int n = 1 + below(g, 4);
        out.e[out.rank++] = n;
        return define(g, out, format("one_hot(%s, %d)", a->name, n));
    }
    bool flags = chance(g, 40);
    if (!pick_pair(g, 1u << (flags ? FLAGS : WHOLE), 1u << FLOAT, &a, &b, &out))
        return false;
    out.kind = FLOAT;
    if (!flags && chance(g, 20))
        return define(g, like(b), filled("# * f32(max($ % 5))", a->name, b->name));
    return define_of(g, a, b, out, flags ? OF_FLAGS[below(g, COUNT(OF_FLAGS))] : OF_WHOLE[below(g, COUNT(OF_WHOLE))]);
}

bool grow_half(Grower *g)
{
    static const char *const FORMS[] = {"$ * #", "$ + #", "maximum($, #)", "where($ > #, $, #)", "$ - # * 0.5"};
    const Value *a, *b;
    Value out;
    if (!g->halves)
        return false;
    if (chance(g, 50) && pick_pair(g, 1u << HALF, 1u << HALF, &a, &b, &out))
        return define_of(g, a, b, out, FORMS[below(g, COUNT(FORMS))]);
    a = pick(g);
    out = like(a);
    out.kind = HALF;
    return define(g, out, format(chance(g, 50) ? "bf16(%s)" : "f16(%s)", a->name));
}

bool grow_from_half(Grower *g)
{
    const Value *x = pick_of(g, 1u << HALF, 0, RANK);
    if (!x)
        return false;
    Value y = like(x);
    y.kind = FLOAT;
    return define(g, y, format("f32(%s)", x->name));
}
