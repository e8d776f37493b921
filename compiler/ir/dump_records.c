/* dump_records.c: the records of a dump before its graphs. A new member of Model, or of its lists, needs a row here. */
#include "compiler/ir/dump_records.h"
#include "compiler/ir/placement.h"

static const char *const VARIABLE_KIND[] = {"weight",  "state",   "optimizer_state", "accumulator",
                                            "rounded", "average", "observed",        "cache"};
static const char *const CLIP_KIND[] = {"none", "global_norm", "norm", "value", "global_max", "adaptive"};
static const char *const AVERAGE_KIND[] = {"none", "ema", "swa"};
static const char *const ON_NAN[] = {"stop", "skip", "ignore"};
static const char *const OBSERVE[] = {"none", "metrics", "gradients", "all"};
const char *const UNIT_NAME[UNIT_SHARE + 1] = {"none", "never", "steps", "epochs", "samples", "seconds", "times", "share"};

static const mgpu_field MODEL_FIELDS[] = {
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(Model, name), .c = "name"},
    {"file", MGPU_FIELD_TEXT, MGPU_AT(Model, file), .c = "model_file"},
    {"precision", MGPU_FIELD_TYPE, MGPU_AT(Model, precision), .usual = F32},
    {"batch", MGPU_FIELD_WHOLE, MGPU_AT(Model, batch), .usual = 1, .least = 1, .c = "batch"},
    {"accumulate", MGPU_FIELD_WHOLE, MGPU_AT(Model, accumulate), .usual = 1, .least = 1, .c = "accumulate"},
    {"epochs", MGPU_FIELD_WHOLE, MGPU_AT(Model, epochs), .c = "epochs"},
    {"steps", MGPU_FIELD_WHOLE, MGPU_AT(Model, steps), .c = "steps"},
    {"group", MGPU_FIELD_WHOLE, MGPU_AT(Model, group), .usual = 1, .least = 1, .c = "group"},
    {"seed", MGPU_FIELD_WHOLE, MGPU_AT(Model, seed), .c = "seed"},
    {"exact", MGPU_FIELD_WHOLE, MGPU_AT(Model, exact), .c = "exact"},
    {"tf32", MGPU_FIELD_FLAG, MGPU_AT(Model, tf32)},
    {"fit_accumulate", MGPU_FIELD_FLAG, MGPU_AT(Model, fit_accumulate)},
    {"recompute", MGPU_FIELD_FLAG, MGPU_AT(Model, recompute)},
    {"shard_statistics", MGPU_FIELD_FLAG, MGPU_AT(Model, shard_statistics)},
    {"not_yet", MGPU_FIELD_INT, MGPU_AT(Model, not_yet)},
};
static const mgpu_field STEP_FIELDS[] = {
    {"clip", MGPU_FIELD_CHOICE, MGPU_AT(Model, clip_kind), MGPU_NAMES(CLIP_KIND)},
    {"limit", MGPU_FIELD_NUMBER, MGPU_AT(Model, clip)},
    {"on_nan", MGPU_FIELD_CHOICE, MGPU_AT(Model, on_nan), MGPU_NAMES(ON_NAN), .c = "on_nan", .c_words = "MGPU_NAN_"},
    {"observe", MGPU_FIELD_CHOICE, MGPU_AT(Model, observe), MGPU_NAMES(OBSERVE)},
    {"average", MGPU_FIELD_CHOICE, MGPU_AT(Model, average), MGPU_NAMES(AVERAGE_KIND)},
    {"decay", MGPU_FIELD_NUMBER, MGPU_AT(Model, average_decay)},
    {"start", QUANTITY, MGPU_AT(Model, average_start)},
    {"every", QUANTITY, MGPU_AT(Model, average_every)},
    {"skipped", INDEX, MGPU_AT(Model, skipped), .more = offsetof(Model, variable_count), .usual = -1},
    {"loss_scale", INDEX, MGPU_AT(Model, loss_scale), .more = offsetof(Model, variable_count), .usual = -1},
    {"scaled_steps", INDEX, MGPU_AT(Model, scaled_steps), .more = offsetof(Model, variable_count), .usual = -1},
};
static const mgpu_field RUN_FIELDS[] = {
    {"validate", QUANTITY, MGPU_AT(Model, validate), .c = "validate"},
    {"save", QUANTITY, MGPU_AT(Model, save), .c = "save"},
    {"patience", QUANTITY, MGPU_AT(Model, patience), .c = "patience"},
    {"keep", MGPU_FIELD_WHOLE, MGPU_AT(Model, keep), .c = "keep"},
};
static const mgpu_field BEST_FIELDS[] = {
    {"of", MGPU_FIELD_TEXT, MGPU_AT(Model, best.metric), .c = "best.metric"},
    {"highest", MGPU_FIELD_FLAG, MGPU_AT(Model, best.highest), .c = "best.highest"},
    {NULL, PLACE_OF, MGPU_AT(Model, best.at)},
};
static const mgpu_field IDENTITY_FIELDS[] = {{"of", MGPU_FIELD_TEXT, MGPU_AT(Model, identity), .c = "identity"}};
static const mgpu_field SOURCES_FIELDS[] = {{"of", WORDS, MGPU_AT(Model, files), .more = offsetof(Model, file_count)}};
static const mgpu_field FIXED_FIELDS[] = {
    {"of", WORDS, MGPU_AT(Model, fixed), .more = offsetof(Model, fixed_count), .c = "fixed_settings fixed_setting_count"}};
static const mgpu_field CLIP_FIELDS[] = {
    {NULL, MGPU_FIELD_CHOICE, MGPU_AT(Clip, kind), .usual = -1, MGPU_NAMES(CLIP_KIND)},
    {"limit", MGPU_FIELD_NUMBER, MGPU_AT(Clip, limit)},
};
static const mgpu_field OBJECTIVE_FIELDS[] = {
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(Objective, name), .c = "name"},
    {"times", MGPU_FIELD_WHOLE, MGPU_AT(Objective, times), .usual = 1, .least = 1, .c = "times"},
    {"of", WORDS, MGPU_AT(Objective, losses), .more = offsetof(Objective, loss_count)},
    {NULL, PLACE_OF, MGPU_AT(Objective, at)},
};
static const mgpu_field INPUT_FIELDS[] = {
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(Input, name)},
    {NULL, TYPE, MGPU_AT(Input, dtype), .more = offsetof(Input, shape), .c = "tensor"},
    {"classes", MGPU_FIELD_WHOLE, MGPU_AT(Input, classes), .c = "classes"},
    {"ignore", MGPU_FIELD_WHOLE, MGPU_AT(Input, ignore), .usual = NO_LABEL, .least = INT32_MIN, .c = "ignore"},
    {"other", MGPU_FIELD_WHOLE, MGPU_AT(Input, other), .usual = NO_LABEL, .least = INT32_MIN, .c = "other"},
    {"required", MGPU_FIELD_TEXT, MGPU_AT(Input, required), .c = "required"},
    {"least", MGPU_FIELD_WHOLE, MGPU_AT(Input, least), .least = INT64_MIN, .c = "least"},
    {"most", MGPU_FIELD_WHOLE, MGPU_AT(Input, most), .least = INT64_MIN, .c = "most"},
    {"hidden", MGPU_FIELD_FLAG, MGPU_AT(Input, hidden), .c = "hidden"},
    {NULL, PLACE_OF, MGPU_AT(Input, at)},
};
static const mgpu_field VARIABLE_FIELDS[] = {
    {NULL, MGPU_FIELD_CHOICE, MGPU_AT(Variable, kind), .usual = -1, MGPU_NAMES(VARIABLE_KIND), .c = "kind", .c_words = "MGPU_"},
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(Variable, name)},
    {NULL, TYPE, MGPU_AT(Variable, dtype), .more = offsetof(Variable, shape), .c = "tensor"},
    {"order", ORDER, MGPU_AT(Variable, order), .more = offsetof(Variable, shape), .c = "order"},
    {"trained", MGPU_FIELD_FLAG, MGPU_AT(Variable, trained)},
    {"partial", PLACED, MGPU_AT(Variable, placement), .more = WORD_PARTIAL, .c = "partial"},
    {"split", PLACED, MGPU_AT(Variable, placement), .more = WORD_SPLIT, .c = "split"},
    {"sharded", PLACED, MGPU_AT(Variable, placement), .more = WORD_SHARDED, .c = "sharded"},
    {"owner", INDEX, MGPU_AT(Variable, owner), .more = offsetof(Model, variable_count), .usual = -1},
    {"clip", INDEX, MGPU_AT(Variable, clip), .more = offsetof(Model, clip_count)},
    {"objective", INDEX, MGPU_AT(Variable, objective), .more = offsetof(Model, objective_count)},
    {"flattened", MGPU_FIELD_TEXT, MGPU_AT(Variable, flattened), .c = "flattened"},
    {NULL, PLACE_OF, MGPU_AT(Variable, at)},
};
static const mgpu_field SETTING_FIELDS[] = {
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(Setting, name), .c = "name"},
    {"value", MGPU_FIELD_NUMBER, MGPU_AT(Setting, value), .c = "value"},
    {"text", MGPU_FIELD_TEXT, MGPU_AT(Setting, text)},
    {"given", MGPU_FIELD_FLAG, MGPU_AT(Setting, given)},
    {"hidden", MGPU_FIELD_FLAG, MGPU_AT(Setting, hidden), .c = "hidden"},
    {NULL, PLACE_OF, MGPU_AT(Setting, at)},
};
static const mgpu_field PLATEAU_FIELDS[] = {
    {NULL, INDEX, MGPU_AT(Plateau, setting), .more = offsetof(Model, setting_count), .usual = -1, .c = "setting"},
    {"factor", MGPU_FIELD_NUMBER, MGPU_AT(Plateau, factor), .c = "factor"},
    {"patience", QUANTITY, MGPU_AT(Plateau, patience), .c = "patience"},
    {"of", MGPU_FIELD_TEXT, MGPU_AT(Plateau, watch.metric), .c = "watch.metric"},
    {"highest", MGPU_FIELD_FLAG, MGPU_AT(Plateau, watch.highest), .c = "watch.highest"},
    {NULL, PLACE_OF, MGPU_AT(Plateau, watch.at)},
};
static const mgpu_field INITIAL_FIELDS[] = {
    {"path", MGPU_FIELD_TEXT, MGPU_AT(Initial, path), .c = "path"},
    {"pattern", MGPU_FIELD_TEXT, MGPU_AT(Initial, pattern), .c = "pattern"},
    {"array", MGPU_FIELD_FLAG, MGPU_AT(Initial, array), .c = "array"},
    {"variables", INDICES, MGPU_AT(Initial, variables), .more = offsetof(Initial, variable_count), .c = "variables"},
    {"names", WORDS, MGPU_AT(Initial, names), .more = offsetof(Initial, variable_count), .c = "names count"},
    {"rules", MGPU_FIELD_TEXT, MGPU_AT(Initial, rules), .c = "rules"},
    {NULL, PLACE_OF, MGPU_AT(Initial, at), .c = "line"},
};
static const mgpu_field SETTING_TEXT_FIELDS[] = {
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(SettingText, name), .c = "name"},
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(SettingText, text), .c = "text"},
    {"param", MGPU_FIELD_FLAG, MGPU_AT(SettingText, param), .c = "param"},
};
static const mgpu_field LATER_FIELDS[] = {
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(LaterSet, name), .c = "name"},
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(LaterSet, what), .c = "what"},
    {"line", MGPU_FIELD_INT, MGPU_AT(LaterSet, line), .c = "line"},
};
static const mgpu_field LAYER_FIELDS[] = {
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(struct LayerRow, name), .c = "name"},
    {NULL, SHAPE_OF, MGPU_AT(struct LayerRow, shape), .c = "shape"},
    {"parameters", MGPU_FIELD_WHOLE, MGPU_AT(struct LayerRow, parameters), .c = "parameters"},
    {"flops", MGPU_FIELD_NUMBER, MGPU_AT(struct LayerRow, flops)},
    {NULL, PLACE_OF, MGPU_AT(struct LayerRow, at), .c = "line"},
};
static const mgpu_field SET_FIELDS[] = {{NULL, MGPU_FIELD_TEXT, MGPU_AT(DataSet, name), .c = "name"}};
static const mgpu_field COLUMN_FIELDS[] = {
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(DataColumn, name), .c = "name"},
    {"input", INDEX, MGPU_AT(DataColumn, input), .more = offsetof(Model, input_count), .usual = -1, .c = "input"},
    {"of", WORDS, MGPU_AT(DataColumn, texts), .more = offsetof(DataColumn, count), .c = "texts count"},
    {NULL, PLACE_OF, MGPU_AT(DataColumn, at), .c = "line"},
};
static const mgpu_field CALL_FIELDS[] = {{NULL, MGPU_FIELD_TEXT, MGPU_AT(DataCall, name), .c = "name"},
                                         {NULL, PLACE_OF, MGPU_AT(DataCall, at), .c = "line"}};
static const mgpu_field OPTION_FIELDS[] = {
    {NULL, MGPU_FIELD_TEXT, MGPU_AT(DataOption, name), .c = "name"},
    {"is", ITEMS, MGPU_AT(DataOption, items), .more = offsetof(DataOption, count), .c = "items count"},
};
static const mgpu_record OPTION_RECORD[] = {
    {"option", MGPU_LIST(DataOption, DataCall, options, option_count), .c_type = "mgpu_option", MGPU_FIELDS(OPTION_FIELDS)}};
static const mgpu_record SET_RECORDS[] = {
    {"column", MGPU_LIST(DataColumn, DataSet, columns, column_count), .c_type = "mgpu_column", MGPU_FIELDS(COLUMN_FIELDS)},
    {"call", MGPU_LIST(DataCall, DataSet, calls, call_count), .c_type = "mgpu_call", MGPU_FIELDS(CALL_FIELDS),
     .below = OPTION_RECORD, .below_count = COUNT(OPTION_RECORD)},
};
const mgpu_record RECORDS[] = {
    {"model", MGPU_FIELDS(MODEL_FIELDS)}, /* the first line */
    {"step", MGPU_FIELDS(STEP_FIELDS)},
    {"run", MGPU_FIELDS(RUN_FIELDS)},
    {"best", MGPU_FIELDS(BEST_FIELDS)},
    {"sources", MGPU_FIELDS(SOURCES_FIELDS)},
    {"identity", MGPU_FIELDS(IDENTITY_FIELDS)},
    {"clip", MGPU_LIST(Clip, Model, clips, clip_count), MGPU_FIELDS(CLIP_FIELDS)},
    {"objective", MGPU_LIST(Objective, Model, objectives, objective_count), .c_type = "mgpu_objective", .c_list = "objectives",
     MGPU_FIELDS(OBJECTIVE_FIELDS)},
    {"input", MGPU_LIST(Input, Model, inputs, input_count), .numbered = true, .c_type = "mgpu_input", .c_list = "inputs",
     MGPU_FIELDS(INPUT_FIELDS)},
    {"variable", MGPU_LIST(Variable, Model, variables, variable_count), .numbered = true, .c_type = "mgpu_variable",
     .c_list = "variables", MGPU_FIELDS(VARIABLE_FIELDS)},
    {"setting", MGPU_LIST(Setting, Model, settings, setting_count), .numbered = true, .c_type = "mgpu_setting",
     .c_list = "settings", MGPU_FIELDS(SETTING_FIELDS)},
    {"plateau", MGPU_LIST(Plateau, Model, plateaus, plateau_count), .c_type = "mgpu_plateau", .c_list = "plateaus",
     MGPU_FIELDS(PLATEAU_FIELDS)},
    {"initial", MGPU_LIST(Initial, Model, initials, initial_count), .c_type = "mgpu_initial", .c_list = "initials",
     MGPU_FIELDS(INITIAL_FIELDS)},
    {"set", MGPU_LIST(DataSet, Model, sets, set_count), .c_type = "mgpu_set", .c_list = "sets", MGPU_FIELDS(SET_FIELDS),
     .below = SET_RECORDS, .below_count = COUNT(SET_RECORDS)},
    {"later", MGPU_LIST(LaterSet, Model, later, later_count), .c_type = "mgpu_later_set", .c_list = "later",
     MGPU_FIELDS(LATER_FIELDS)},
    {"layer", MGPU_LIST(struct LayerRow, Model, layers, layer_count), .c_type = "mgpu_layer", .c_list = "layers",
     MGPU_FIELDS(LAYER_FIELDS)},
    {"outline", MGPU_LIST(DataCall, Model, outline, outline_count), .c_type = "mgpu_call", .c_list = "outline",
     MGPU_FIELDS(CALL_FIELDS), .below = OPTION_RECORD, .below_count = COUNT(OPTION_RECORD)},
    {"told", MGPU_LIST(SettingText, Model, told, told_count), .c_type = "mgpu_setting_text", .c_list = "told",
     MGPU_FIELDS(SETTING_TEXT_FIELDS)},
    {"fixed", MGPU_FIELDS(FIXED_FIELDS)},
};
const int RECORD_COUNT = COUNT(RECORDS);
