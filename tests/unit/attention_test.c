/* attention_test: runtime/abi/mgpu_attention.h, as compiler/kernel/attention.c plans it, against the interpreter.
 *
 * Every case runs forward, with sums, without and for them alone, for all gradients at once and for each alone, in f64, f32, bf16
 * and f16, by every instruction set of the library that this machine has, with the samples in two parts. Buffers are exactly as
 * large as promised, the workspace and the results hold NaN before the call. */
#include "compiler/kernel/phase.h"
#include "runtime/host/contract.h"
#include "tests/unit/attention_cases.h"

/* nodes, computed by one call, against the interpreter; NULL: they agree */
static const char *compare(Setup *s, const Case *c, Node **nodes, int count, const mgpu_contract_variant *variant)
{
    const Node *base[ATTENTION_OPERANDS];
    const Tensor *operand[ATTENTION_OPERANDS], *result[ATTENTION_RESULTS];
    Tensor own[ATTENTION_OPERANDS], made[ATTENTION_RESULTS];
    void *argument[ATTENTION_OPERANDS + ATTENTION_RESULTS + 1];
    int inputs = nodes[0]->inputs;
    for (int k = 0; k < inputs; k++) {
        base[k] = attention_operand(nodes[0]->in[k], is_stored);
        if (!is_stored(base[k]))
            return "an operand is not read where it lies";
        own[k] = tensor_of(base[k]);
        operand[k] = &own[k];
        int leaf = 0;
        while (s->leaf[leaf] != base[k])
            leaf++;
        argument[k] =
            as_type(s->value[leaf], shape_count(&base[k]->shape) * (base[k]->has_samples ? c->samples : 1), own[k].dtype);
    }
    for (int i = 0; i < count; i++) {
        made[i] = tensor_of(nodes[i]);
        result[i] = &made[i];
        argument[inputs + i] =
            as_type(NULL, shape_count(&nodes[i]->shape) * (nodes[i]->has_samples ? c->samples : 1), made[i].dtype);
    }
    Attention *plan = attention_plan((const Node *const *)nodes, count, base, operand, result);
    int64_t work = attention_workspace(plan);
    char *room = malloc((size_t)work + 64);
    argument[inputs + count] = room + (64 - (uintptr_t)room % 64) % 64;
    memset(argument[inputs + count], 0xff, (size_t)work);
    int64_t samples = attention_split(plan) == MGPU_SPLIT_SAMPLES ? c->samples : 1;
    for (int64_t begin = 0, end = (samples + 1) / 2; begin < samples; begin = end, end = samples)
        variant->attend(attention_table(plan), argument,
                        &(mgpu_part){.samples = c->samples, .begin = begin, .end = end, .threads = 1});
    const char *wrong = compare_results(s, c, nodes, count, argument + inputs);
    keep_forward(s, c, nodes, count, argument + inputs);
    for (int i = 0; i < inputs + count; i++)
        free(argument[i]);
    free(room);
    return wrong;
}

static const char *check(const Case *c, Dtype type, const mgpu_contract_variant *variant)
{
    Setup s;
    set_up(&s, c, type, false);
    Node *all[ALL_RESULTS], **gradient = all + FORWARD_RESULTS;
    compute_all(&s, c, false, all);
    const char *wrong = compare(&s, c, all, 1, variant);
    wrong = wrong ? wrong : compare(&s, c, all, FORWARD_RESULTS, variant);
    wrong = wrong ? wrong : compare(&s, c, all + 1, 1, variant);
    if (wrong)
        return format("forward: %s", wrong);
    for (int which = 0; which < 4 && !wrong; which++)
        wrong = gradient[which] ? compare(&s, c, &gradient[which], 1, variant) : NULL;
    if (wrong)
        return format("one gradient: %s", wrong);
    wrong = compare(&s, c, gradient, 3, variant);
    for (int i = 0; i < s.graph->node_count; i++)
        free(s.run.values[i]);
    return wrong ? format("all gradients: %s", wrong) : NULL;
}

int main(void)
{
    int failed = 0;
    const mgpu_contract_variant *variant;
    for (int v = 0; (variant = mgpu_contract_choice(v)); v++)
        for (int k = 0; k < 4; k++) {
            const Dtype type = (Dtype[]){F64, F32, BF16, F16}[k];
            int bad = 0;
            for (int i = 0; i < COUNT(CASES); i++) {
                const char *wrong = has_range(&CASES[i], type) ? check(&CASES[i], type, variant) : NULL;
                if (wrong)
                    printf("not ok attention %s %s: %s: %s\n", variant->name, dtype_name(type), CASES[i].name, wrong);
                bad += wrong != NULL;
            }
            if (!bad)
                printf("ok attention %s %s, %d cases\n", variant->name, dtype_name(type), COUNT(CASES));
            failed += bad;
        }
    return failed != 0;
}
