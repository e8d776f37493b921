/* data_program.h: a program of nothing but inputs and data sets, of a model's text: for tests of readers and stages. */
#ifndef MGPU_TEST_DATA_PROGRAM_H
#define MGPU_TEST_DATA_PROGRAM_H

#include "dsl/dsl.h"
#include "runtime/data/data.h"

#include <string.h>

static inline const mgpu_call *calls_of(const DataSet *set)
{
    mgpu_call *calls = NEW_ARRAY(mgpu_call, set->call_count);
    for (int k = 0; k < set->call_count; k++) {
        const DataCall *c = &set->calls[k];
        mgpu_option *options = NEW_ARRAY(mgpu_option, c->option_count);
        for (int i = 0; i < c->option_count; i++) {
            mgpu_item *items = NEW_ARRAY(mgpu_item, c->options[i].count);
            for (int n = 0; n < c->options[i].count; n++)
                items[n] = (mgpu_item){c->options[i].items[n].text, c->options[i].items[n].number};
            options[i] = (mgpu_option){c->options[i].name, items, c->options[i].count};
        }
        calls[k] = (mgpu_call){c->name, options, c->option_count, c->at->line};
    }
    return calls;
}

static inline const mgpu_set *sets_of(const Model *m)
{
    mgpu_set *sets = NEW_ARRAY(mgpu_set, m->set_count);
    for (int i = 0; i < m->set_count; i++) {
        const DataSet *s = &m->sets[i];
        mgpu_column *columns = NEW_ARRAY(mgpu_column, s->column_count);
        for (int k = 0; k < s->column_count; k++)
            columns[k] = (mgpu_column){s->columns[k].name, s->columns[k].input, s->columns[k].texts, s->columns[k].count,
                                       s->columns[k].at->line};
        sets[i] = (mgpu_set){s->name, columns, s->column_count, calls_of(s), s->call_count};
    }
    return sets;
}

/* inputs and data as the model language has them */
static inline const mgpu_program *program_of(const char *inputs, const char *data)
{
    const char *text = format("model m {\n%s\nweight w: f32[1] = 0\nloss sum(w)\n}\ndata {\n%s\n}\n", inputs, data);
    Source *source = NEW(Source);
    *source = (Source){.file = "m.net", .text = text, .length = strlen(text)};
    static const Settings NONE;
    const Model *m = elaborate(parse(source), &NONE);
    mgpu_input *list = NEW_ARRAY(mgpu_input, m->input_count);
    for (int i = 0; i < m->input_count; i++) {
        const Input *in = &m->inputs[i];
        list[i] = (mgpu_input){.tensor = {in->name, (uint8_t)in->dtype, in->shape.rank, {0}},
                               .classes = in->classes,
                               .ignore = in->ignore,
                               .other = in->other};
        memcpy(list[i].tensor.extent, in->shape.extent, (size_t)in->shape.rank * sizeof(int64_t));
    }
    mgpu_program *p = NEW(mgpu_program);
    *p = (mgpu_program){.name = "m",
                        .model_file = "m.net",
                        .inputs = list,
                        .input_count = m->input_count,
                        .sets = sets_of(m),
                        .set_count = m->set_count};
    return p;
}
#endif
