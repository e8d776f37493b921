/* elementwise.c: element-wise and running primitives that need only their row in ops.def. "tanh(x)" of a tensor is a node, of a
 * number a number. */
#include "dsl/elaborate.h"

#include <string.h>

static Value *apply(Elaborator *e, const Place *at, Value **a, Op op)
{
    if (op_is_running(op))
        return apply_running(e, at, op, a);
    if (OP_INFO[op].inputs == 1)
        return apply_unary(e, at, op, a[0]);
    if (a[0]->kind == VALUE_NUMBER && a[1]->kind == VALUE_NUMBER)
        return value_double(op_value(op, number_of(a[0]), number_of(a[1]), 0));
    return apply_binary(e, at, op, false, false, a[0], a[1], OP_INFO[op].name);
}

#define OP(op, ...)                                                                                                              \
    static Value *run_##op(Elaborator *e, const Place *at, Value **a) { return apply(e, at, a, OP_##op); }
#include "compiler/ir/ops.def"

static Value *(*const RUN[OPS])(Elaborator *, const Place *, Value **) = {
#define OP(op, ...) [OP_##op] = run_##op,
#include "compiler/ir/ops.def"
};

/* Returns "y, x" of the signature "atan2(y, x)", or NULL for operations that are not functions of one or two tensors. */
static const char *parameters_of(Op op)
{
    const OpInfo *info = &OP_INFO[op];
    size_t length = strlen(info->name);
    bool takes_tensors = info->op_class == ELEMENTWISE && (info->inputs == 1 || info->inputs == 2);
    bool called = (takes_tensors || op_is_running(op)) && info->signature && strncmp(info->signature, info->name, length) == 0 &&
                  info->signature[length] == '(';
    return called ? copy_text(info->signature + length + 1, strlen(info->signature) - length - 2) : NULL;
}

const Builtin *elementwise_primitives(void)
{
    Builtin *list = NEW_ARRAY(Builtin, OPS + 1);
    int count = 0;
    for (int op = 0; op < OPS; op++) {
        const char *parameters = parameters_of((Op)op);
        if (parameters)
            list[count++] = (Builtin){OP_INFO[op].name, parameters, RUN[op]};
    }
    return list;
}
