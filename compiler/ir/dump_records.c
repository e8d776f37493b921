/* dump_records.c: the records of a dump before its graphs. A new member of Model, or of what it lists, is a row here. */
#include "compiler/ir/dump_records.h"

#define AT(type, member) .at = offsetof(type, member)
#define NAMES(list) .names = list, .name_count = COUNT(list)
#define FIELDS(list) .fields = list, .field_count = COUNT(list)
#define LIST(type, of, items, length) .size = sizeof(type), .list = offsetof(of, items), .count = offsetof(of, length)

static const char *const VARIABLE_KIND[] = {"weight", "state", "optimizer_state", "accumulator", "rounded", "average", "observed", "cache"};
static const char *const CLIP_KIND[] = {"none", "global_norm", "norm", "value"};
static const char *const AVERAGE_KIND[] = {"none", "ema", "swa"};
static const char *const ON_NAN[] = {"stop", "skip", "ignore"};
static const char *const OBSERVE[] = {"none", "metrics", "gradients", "all"};
const char *const UNIT_NAME[UNIT_SHARE + 1] = {"none", "never", "steps", "epochs", "samples", "seconds", "times", "share"};

static const Field MODEL_FIELDS[] = {
    {NULL, WORD, AT(Model, name)},
    {"file", WORD, AT(Model, file)},
    {"precision", DTYPE, AT(Model, precision), .none = F32},
    {"batch", WHOLE, AT(Model, batch), .none = 1, .least = 1},
    {"accumulate", WHOLE, AT(Model, accumulate), .none = 1, .least = 1},
    {"epochs", WHOLE, AT(Model, epochs)},
    {"steps", WHOLE, AT(Model, steps)},
    {"group", WHOLE, AT(Model, group), .none = 1, .least = 1},
    {"seed", SEED, AT(Model, seed)},
    {"tf32", FLAG, AT(Model, tf32)},
    {"fit_accumulate", FLAG, AT(Model, fit_accumulate)},
    {"recompute", FLAG, AT(Model, recompute)},
    {"shard_statistics", FLAG, AT(Model, shard_statistics)},
    {"not_yet", INT, AT(Model, not_yet)},
};
static const Field STEP_FIELDS[] = {
    {"clip", CHOICE, AT(Model, clip_kind), NAMES(CLIP_KIND)},
    {"limit", NUMBER, AT(Model, clip)},
    {"on_nan", CHOICE, AT(Model, on_nan), NAMES(ON_NAN)},
    {"observe", CHOICE, AT(Model, observe), NAMES(OBSERVE)},
    {"average", CHOICE, AT(Model, average), NAMES(AVERAGE_KIND)},
    {"decay", NUMBER, AT(Model, average_decay)},
    {"start", QUANTITY, AT(Model, average_start)},
    {"every", QUANTITY, AT(Model, average_every)},
    {"skipped", INDEX, AT(Model, skipped), .more = offsetof(Model, variable_count), .none = -1},
    {"loss_scale", INDEX, AT(Model, loss_scale), .more = offsetof(Model, variable_count), .none = -1},
    {"scaled_steps", INDEX, AT(Model, scaled_steps), .more = offsetof(Model, variable_count), .none = -1},
};
static const Field RUN_FIELDS[] = {
    {"validate", QUANTITY, AT(Model, validate)},
    {"save", QUANTITY, AT(Model, save)},
    {"patience", QUANTITY, AT(Model, patience)},
    {"keep", WHOLE, AT(Model, keep)},
};
static const Field BEST_FIELDS[] = {
    {"of", WORD, AT(Model, best.metric)},
    {"highest", FLAG, AT(Model, best.highest)},
    {NULL, PLACE_OF, AT(Model, best.at)},
};
static const Field IDENTITY_FIELDS[] = {{"of", WORD, AT(Model, identity)}};
static const Field SOURCES_FIELDS[] = {{"of", WORDS, AT(Model, files), .more = offsetof(Model, file_count)}};
static const Field FIXED_FIELDS[] = {{"of", WORDS, AT(Model, fixed), .more = offsetof(Model, fixed_count)}};
static const Field CLIP_FIELDS[] = {
    {NULL, CHOICE, AT(Clip, kind), .none = -1, NAMES(CLIP_KIND)},
    {"limit", NUMBER, AT(Clip, limit)},
};
static const Field INPUT_FIELDS[] = {
    {NULL, WORD, AT(Input, name)},
    {NULL, TYPE, AT(Input, dtype), .more = offsetof(Input, shape)},
    {"classes", WHOLE, AT(Input, classes)},
    {"ignore", WHOLE, AT(Input, ignore), .none = NO_LABEL, .least = INT32_MIN},
    {"other", WHOLE, AT(Input, other), .none = NO_LABEL, .least = INT32_MIN},
    {"required", WORD, AT(Input, required)},
    {"least", WHOLE, AT(Input, least), .least = INT64_MIN},
    {"most", WHOLE, AT(Input, most), .least = INT64_MIN},
    {"hidden", FLAG, AT(Input, hidden)},
    {NULL, PLACE_OF, AT(Input, at)},
};
static const Field VARIABLE_FIELDS[] = {
    {NULL, CHOICE, AT(Variable, kind), .none = -1, NAMES(VARIABLE_KIND)},
    {NULL, WORD, AT(Variable, name)},
    {NULL, TYPE, AT(Variable, dtype), .more = offsetof(Variable, shape)},
    {"order", ORDER, AT(Variable, order), .more = offsetof(Variable, shape)},
    {"trained", FLAG, AT(Variable, trained)},
    {"partial", FLAG, AT(Variable, partial)},
    {"split", FLAG, AT(Variable, split)},
    {"sharded", FLAG, AT(Variable, sharded)},
    {"owner", INDEX, AT(Variable, owner), .more = offsetof(Model, variable_count), .none = -1},
    {"clip", INDEX, AT(Variable, clip), .more = offsetof(Model, clip_count)},
    {"flattened", WORD, AT(Variable, flattened)},
    {NULL, PLACE_OF, AT(Variable, at)},
};
static const Field SETTING_FIELDS[] = {
    {NULL, WORD, AT(Setting, name)},
    {"value", NUMBER, AT(Setting, value)},
    {"text", WORD, AT(Setting, text)},
    {"given", FLAG, AT(Setting, given)},
    {"hidden", FLAG, AT(Setting, hidden)},
    {NULL, PLACE_OF, AT(Setting, at)},
};
static const Field PLATEAU_FIELDS[] = {
    {NULL, INDEX, AT(Plateau, setting), .more = offsetof(Model, setting_count), .none = -1},
    {"factor", NUMBER, AT(Plateau, factor)},
    {"patience", QUANTITY, AT(Plateau, patience)},
    {"of", WORD, AT(Plateau, watch.metric)},
    {"highest", FLAG, AT(Plateau, watch.highest)},
    {NULL, PLACE_OF, AT(Plateau, watch.at)},
};
static const Field INITIAL_FIELDS[] = {
    {"path", WORD, AT(Initial, path)},
    {"pattern", WORD, AT(Initial, pattern)},
    {"array", FLAG, AT(Initial, array)},
    {"variables", INDICES, AT(Initial, variables), .more = offsetof(Initial, variable_count)},
    {"names", WORDS, AT(Initial, names), .more = offsetof(Initial, variable_count)},
    {"rules", WORD, AT(Initial, rules)},
    {NULL, PLACE_OF, AT(Initial, at)},
};
static const Field TOLD_FIELDS[] = {
    {NULL, WORD, AT(Told, name)},
    {NULL, WORD, AT(Told, text)},
    {"param", FLAG, AT(Told, param)},
};
static const Field LATER_FIELDS[] = {
    {NULL, WORD, AT(LaterSet, name)},
    {NULL, WORD, AT(LaterSet, what)},
    {"line", INT, AT(LaterSet, line)},
};
static const Field LAYER_FIELDS[] = {
    {NULL, WORD, AT(struct LayerRow, name)},
    {NULL, SHAPE_OF, AT(struct LayerRow, shape)},
    {"parameters", WHOLE, AT(struct LayerRow, parameters)},
    {"flops", NUMBER, AT(struct LayerRow, flops)},
    {NULL, PLACE_OF, AT(struct LayerRow, at)},
};
static const Field SET_FIELDS[] = {{NULL, WORD, AT(DataSet, name)}};
static const Field COLUMN_FIELDS[] = {
    {NULL, WORD, AT(DataColumn, name)},
    {"input", INDEX, AT(DataColumn, input), .more = offsetof(Model, input_count), .none = -1},
    {"of", WORDS, AT(DataColumn, texts), .more = offsetof(DataColumn, count)},
    {NULL, PLACE_OF, AT(DataColumn, at)},
};
static const Field CALL_FIELDS[] = {{NULL, WORD, AT(DataCall, name)}, {NULL, PLACE_OF, AT(DataCall, at)}};
static const Field OPTION_FIELDS[] = {
    {NULL, WORD, AT(DataOption, name)},
    {"is", ITEMS, AT(DataOption, items), .more = offsetof(DataOption, count)},
};
static const Record OPTION_RECORD[] = {{"option", LIST(DataOption, DataCall, options, option_count), FIELDS(OPTION_FIELDS)}};
static const Record SET_RECORDS[] = {
    {"column", LIST(DataColumn, DataSet, columns, column_count), FIELDS(COLUMN_FIELDS)},
    {"call", LIST(DataCall, DataSet, calls, call_count), FIELDS(CALL_FIELDS), .below = OPTION_RECORD, .below_count = COUNT(OPTION_RECORD)},
};
const Record RECORDS[] = {
    {"model", FIELDS(MODEL_FIELDS)}, /* the first line */
    {"step", FIELDS(STEP_FIELDS)},
    {"run", FIELDS(RUN_FIELDS)},
    {"best", FIELDS(BEST_FIELDS)},
    {"sources", FIELDS(SOURCES_FIELDS)},
    {"identity", FIELDS(IDENTITY_FIELDS)},
    {"clip", LIST(Clip, Model, clips, clip_count), FIELDS(CLIP_FIELDS)},
    {"input", LIST(Input, Model, inputs, input_count), .numbered = true, FIELDS(INPUT_FIELDS)},
    {"variable", LIST(Variable, Model, variables, variable_count), .numbered = true, FIELDS(VARIABLE_FIELDS)},
    {"setting", LIST(Setting, Model, settings, setting_count), .numbered = true, FIELDS(SETTING_FIELDS)},
    {"plateau", LIST(Plateau, Model, plateaus, plateau_count), FIELDS(PLATEAU_FIELDS)},
    {"initial", LIST(Initial, Model, initials, initial_count), FIELDS(INITIAL_FIELDS)},
    {"set", LIST(DataSet, Model, sets, set_count), FIELDS(SET_FIELDS), .below = SET_RECORDS, .below_count = COUNT(SET_RECORDS)},
    {"later", LIST(LaterSet, Model, later, later_count), FIELDS(LATER_FIELDS)},
    {"layer", LIST(struct LayerRow, Model, layers, layer_count), FIELDS(LAYER_FIELDS)},
    {"outline", LIST(DataCall, Model, outline, outline_count), FIELDS(CALL_FIELDS), .below = OPTION_RECORD, .below_count = COUNT(OPTION_RECORD)},
    {"told", LIST(Told, Model, told, told_count), FIELDS(TOLD_FIELDS)},
    {"fixed", FIELDS(FIXED_FIELDS)},
};
const int RECORD_COUNT = COUNT(RECORDS);
