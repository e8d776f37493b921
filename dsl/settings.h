/* settings.h: what the files of the train block share: settings.c, rules.c, optimizer.c, train.c. */
#ifndef MGPU_SETTINGS_H
#define MGPU_SETTINGS_H

#include "dsl/elaborate.h"

typedef enum SettingId {
    SET_BATCH, SET_EPOCHS, SET_STEPS, SET_LR, SET_DECAY, SET_OPTIMIZER, SET_PRECISION, SET_ACCUMULATE, SET_CLIP, SET_SEED,
    SET_EMA, SET_SWA, SET_INIT, SET_RULES, SET_VALIDATE, SET_SAVE, SET_KEEP, SET_PATIENCE, SET_BEST, SET_ON_NAN, SET_OBSERVE, SET_RECOMPUTE,
    SETTINGS_READY, /* those after it are checked and said to be "not yet" */
    SET_MEMORY = SETTINGS_READY, SET_WORKERS, SET_EXACT,
    SETTING_COUNT
} SettingId;
extern const char *const SETTING_NAMES[SETTING_COUNT];

/* ---- settings.c */
int find_text(const char *name, const char *const *list, int count); /* -1: it is not there */
Value *set_value(Elaborator *, const char *key, const Tree *);        /* of --set KEY=VALUE */
const char *assigned_name(const Elaborator *, const Tree *);          /* NAME of NAME = value in the train block */
Arguments with_set_arguments(Elaborator *, const char *setting, Arguments); /* those of --set SETTING.ARGUMENT */
Value *eval_optimizer(Elaborator *, const Tree *, bool rule);
Value *eval_setting(Elaborator *, const char *name, const Tree *);
void put_setting(Elaborator *, const char *name, const Place *, const Tree *text, Value *); /* text NULL: nobody wrote it */
Node *rate_node(Elaborator *, const Place *, const char *name, const Value *); /* one number for all samples */
Clip clip_value(const Place *, const Value *);
Quantity patience_value(const Place *, const Value *, const char *name);
Watch watch_value(const Place *, const Value *, const char *name);
const char *init_value(const Place *, const Value *); /* NULL: none */
const char *rules_value(const Place *, const Value *); /* likewise: how names and shapes of a file become the model's */

/* ---- rules.c */
void check_rules(Elaborator *);                   /* every pattern has to have reached a weight */
#endif
