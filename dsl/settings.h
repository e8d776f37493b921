/* settings.h: shared by the files of the train block: settings.c, rules.c, optimizer.c, train.c. */
#ifndef MGPU_SETTINGS_H
#define MGPU_SETTINGS_H

#include "dsl/elaborate.h"

/* clang-format off */
typedef enum SettingId {
    SET_BATCH, SET_EPOCHS, SET_STEPS, SET_LR, SET_DECAY, SET_OPTIMIZER, SET_PRECISION, SET_ACCUMULATE, SET_CLIP, SET_SEED,
    SET_EMA, SET_SWA, SET_INIT, SET_RULES, SET_VALIDATE, SET_SAVE, SET_KEEP, SET_PATIENCE, SET_BEST, SET_ON_NAN, SET_OBSERVE, SET_RECOMPUTE,
    SET_EXACT,
    SETTINGS_READY, /* the settings from here on are checked, but reported as "not yet" */
    SET_MEMORY = SETTINGS_READY, SET_WORKERS,
    SETTING_COUNT
} SettingId;
/* clang-format on */
extern const char *const SETTING_NAMES[SETTING_COUNT];

/* ---- settings.c */
int find_text(const char *name, const char *const *list, int count); /* returns -1 if the name is not in the list */
Value *set_value(Elaborator *, const char *key, const Tree *);       /* Returns the value of --set KEY=VALUE. */
const char *assigned_name(const Elaborator *, const Tree *); /* Returns NAME of a statement NAME = value in the train block. */
Arguments with_set_arguments(Elaborator *, const char *setting, Arguments); /* adds those of --set SETTING.ARGUMENT */
Value *eval_optimizer(Elaborator *, const Tree *, bool rule);
Value *eval_setting(Elaborator *, const char *name, const Tree *);
void put_setting(Elaborator *, const char *name, const Place *, const Tree *text, Value *); /* text: may be NULL */
Node *rate_node(Elaborator *, const Place *, const char *name, const Value *);              /* a scalar without samples */
Clip clip_value(const Place *, const Value *);
Quantity patience_value(const Place *, const Value *, const char *name);
Watch watch_value(const Place *, const Value *, const char *name);
const char *init_value(const Place *, const Value *);  /* path of the file of weights, or NULL for none */
const char *rules_value(const Place *, const Value *); /* rules that map a file's tensors to the model's; NULL for none */

/* ---- rules.c */
void check_rules(Elaborator *); /* Reports every pattern that has matched no weight. */
#endif
