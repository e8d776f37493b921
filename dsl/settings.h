/* settings.h: what the files of the train block share: settings.c, rules.c, optimizer.c, train.c. */
#ifndef MGPU_SETTINGS_H
#define MGPU_SETTINGS_H

#include "dsl/elaborate.h"

typedef enum SettingId {
    SET_BATCH, SET_EPOCHS, SET_STEPS, SET_LR, SET_DECAY, SET_OPTIMIZER, SET_PRECISION, SET_ACCUMULATE, SET_CLIP, SET_SEED,
    SET_EMA, SET_SWA, SET_INIT, SET_VALIDATE, SET_SAVE, SET_KEEP, SET_PATIENCE, SET_BEST, SET_ON_NAN, SET_RECOMPUTE,
    SETTINGS_READY, /* those after it are checked and said to be "not yet" */
    SET_MEMORY = SETTINGS_READY, SET_WORKERS, SET_EXACT,
    SETTING_COUNT
} SettingId;
extern const char *const SETTING_NAMES[SETTING_COUNT];

/* ---- settings.c */
int find_text(const char *name, const char *const *list, int count); /* -1: it is not there */
const Tree *set_expression(const char *key, const char *value);      /* of --set KEY=VALUE */
int find_set(const Elaborator *, const char *key);                   /* number of the --set that holds; -1: none */
void mark_set(Elaborator *, const char *key);
Arguments with_set_arguments(Elaborator *, const char *setting, Arguments); /* those of --set SETTING.ARGUMENT */
Value *eval_optimizer(Elaborator *, const Tree *, bool rule);
Value *eval_setting(Elaborator *, const char *name, const Tree *);
void put_setting(Elaborator *, const char *name, const Place *, const Tree *text, Value *); /* text NULL: nobody wrote it */
Clip clip_value(const Place *, const Value *);
Quantity patience_value(const Place *, const Value *, const char *name);
Watch watch_value(const Place *, const Value *, const char *name);
const char *init_value(const Place *, const Value *); /* NULL: none */

/* ---- rules.c: what all rules together say of a weight */
typedef struct Reached {
    Node *lr, *decay;
    const Place *decay_at;   /* of the rule that sets it; NULL: none does */
    const Value *optimizer;  /* NULL: no rule sets it */
    int clip;                /* as Variable.clip */
    bool frozen;
    const Rule *init;        /* whose `init` holds; NULL: no rule's */
    int below;               /* characters of the name up to the end of what the rule's pattern matches */
    const char *pattern;     /* that one */
} Reached;
Reached rules_of(Elaborator *, const char *name); /* lr and decay: NULL where no rule sets them */
void check_rules(Elaborator *);                   /* every pattern has to have reached a weight */
#endif
