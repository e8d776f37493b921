/* trained_weights.c: opens the weights for `eval` and `predict`: those of --init FILE; else of a run's folder the best ones if
 * the program watches a metric, or else the last ones (averages, if it makes some). Then those of --init PART=FILE replace them.
 * It reports which they are. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/data/data.h"
#include "runtime/data/sets.h"
#include "runtime/engine/engine.h"
#include "runtime/run/commands.h"
#include "runtime/save/checkpoint.h"
#include "runtime/weights/weights.h"

#include <stdlib.h>
#include <unistd.h>

char *mgpu_save_folder(const RunOptions *o)
{
    return o->save ? mgpu_format("%s", o->save) : o->resume ? mgpu_format("%s", o->resume) : mgpu_format("./%s.save", o->program);
}

static void say_file(const TensorFile *file, const char *what)
{
    if (file->step < 0)
        printf("weights  %s%s\n", file->path, what);
    else
        printf("weights  %s, step %lld%s\n", file->path, (long long)file->step, what);
}

/* Opens averages if the program makes some; a program without training opens them if the folder has some, since the training
 * program had the model's loss. */
static bool open_last(TensorFile *file, const mgpu_program *p, const Saved *saved)
{
    return ((p->average_count || p->predicts) && mgpu_open_saved_model(file, saved, false, true)) ||
           (!p->average_count && mgpu_open_saved_model(file, saved, false, false));
}

/* Returns "; --weights last takes those of step 40", or "" if the step is unknown. The caller frees. */
static char *other_choice(const mgpu_program *p, const Saved *saved)
{
    TensorFile last;
    if (!open_last(&last, p, saved))
        return mgpu_format("%s", "");
    char *text =
        last.step < 0 ? mgpu_format("%s", "") : mgpu_format("; --weights last takes those of step %lld", (long long)last.step);
    mgpu_close_tensors(&last);
    return text;
}

/* Returns false if the last ones are to be used. */
static bool open_best(TensorFile *file, const mgpu_program *p, const RunOptions *o, const char *folder, const Saved *saved)
{
    bool there = saved && mgpu_has_saved_best(saved);
    if (o->weights == WEIGHTS_BEST && !there)
        mgpu_fail(MGPU_BAD_INPUT, "--weights best: there is no %s/best.safetensors%s", folder,
                  p->best.metric ? ": no validation has named the best weights yet; --weights last takes the last ones"
                                 : "; a program that is compiled with --set 'best=lowest(\"loss\")' saves it");
    if (o->weights == WEIGHTS_LAST || (o->weights != WEIGHTS_BEST && !p->best.metric && !p->predicts) || !there)
        return false;
    mgpu_open_saved_model(file, saved, true, false);
    char *other = other_choice(p, saved);
    char *what = p->best.metric ? mgpu_format(": the %s %s%s", p->best.highest ? "highest" : "lowest", p->best.metric, other)
                                : mgpu_format("%s", other);
    say_file(file, what);
    free(what);
    free(other);
    return true;
}

/* Opens the file of the whole model. Returns false if the parts are all of it. *saved is its save, which stays open. */
static bool open_whole(TensorFile *file, const mgpu_program *p, const RunOptions *o, Saved **saved)
{
    const char *first = p->predicts ? "" : "train first, or ";
    *saved = NULL;
    if (o->init && access(o->init, R_OK) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "there are no weights at %s: %sname them with --init FILE or --resume DIR", o->init, first);
    if (o->init) {
        mgpu_open_weights(file, o->init);
        say_file(file, "");
        return true;
    }
    if (o->part_count && mgpu_parts_suffice(p, o))
        return false;
    char *folder = o->resume ? mgpu_format("%s", o->resume) : mgpu_save_folder(o), *why;
    *saved = mgpu_open_saved(folder, MGPU_NEED_MODEL, &why);
    free(why);
    bool found = open_best(file, p, o, folder, *saved);
    if (!found && *saved && (found = open_last(file, p, *saved)))
        say_file(file, p->best.metric && o->weights != WEIGHTS_LAST ? ": the last; no validation has named the best ones" : "");
    const char *last = p->average_count ? "average.safetensors" : "weights.safetensors";
    if (!found && (o->resume || !mgpu_parts_suffice(p, o))) { /* otherwise the output depends on no file */
        if (o->part_count)
            mgpu_fail(
                MGPU_BAD_INPUT,
                "the parts of --init are not all of the model, and there are no weights at %s/%s for the rest: name them with "
                "--init FILE or --save DIR",
                folder, last);
        mgpu_fail(MGPU_BAD_INPUT, "there are no weights at %s/%s: %sname them with --init FILE or --resume DIR", folder, last,
                  first);
    }
    free(folder);
    return found;
}

Engine *mgpu_open_trained(const mgpu_program *program, const RunOptions *o, Feed *feed, Categories *categories, Collect *collect,
                          void *context)
{
    TensorFile file;
    Saved *saved;
    mgpu_doing("weights are being opened");
    bool whole = open_whole(&file, program, o, &saved);
    mgpu_doing(NULL);
    const mgpu_plan *plan = mgpu_choose_plan(program, o);
    mgpu_compare_program(o, program, plan);
    Engine *engine = mgpu_open_loaded(program, plan, o, whole ? &file : NULL, saved, feed, collect, context);
    mgpu_doing("weights are being loaded");
    mgpu_load_parts(program, plan, engine, o, MGPU_MODEL_VIEW);
    mgpu_doing(NULL);
    mgpu_compare_weights(o, feed);
    if (whole) {
        mgpu_take_categories(categories, &file);
        mgpu_close_tensors(&file);
    }
    mgpu_join_parts(categories, o);
    mgpu_close_saved(saved);
    return engine;
}
