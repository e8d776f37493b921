/* trained.c: the weights with which `eval` and `predict` work: of --init FILE, else of the folder of a run the best ones where
 * the program watches a number, else the last ones (averages, if it makes some); then those of --init PART=FILE in their
 * place. Which they are is said. */
#include "runtime/data.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *mgpu_save_folder(const Options *o)
{
    return o->save ? mgpu_format("%s", o->save) : o->resume ? mgpu_format("%s", o->resume) : mgpu_format("./%s.save", o->program);
}

/* ", step 40", or nothing where the file does not say it; the caller frees */
static char *step_text(const char *before, const char *path)
{
    TensorFile file;
    mgpu_read_safetensors(&file, path);
    char *text = file.step < 0 ? mgpu_format("%s", "") : mgpu_format("%s%lld", before, (long long)file.step);
    mgpu_close_safetensors(&file);
    return text;
}

static void say_file(const char *path, const char *what)
{
    char *step = step_text(", step ", path);
    printf("weights  %s%s%s\n", path, step, what);
    free(step);
}

static char *best_file(const mgpu_program *p, const Options *o, const char *folder, const char *last)
{
    char *best = mgpu_format("%s/best.safetensors", folder);
    if (o->weights == WEIGHTS_BEST && access(best, R_OK) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "--weights best: there is no %s%s", best,
                  p->best.metric ? ": no validation has named the best weights yet; --weights last takes the last ones"
                                 : "; a program that is compiled with --set 'best=lowest(\"loss\")' saves it");
    if (o->weights == WEIGHTS_LAST || (o->weights != WEIGHTS_BEST && !p->best.metric) || access(best, R_OK) != 0) {
        free(best);
        return NULL;
    }
    char *step = access(last, R_OK) == 0 ? step_text("; --weights last takes those of step ", last) : mgpu_format("%s", "");
    char *what = p->best.metric ? mgpu_format(": the %s %s%s", p->best.highest ? "highest" : "lowest", p->best.metric, step)
                                : mgpu_format("%s", step);
    say_file(best, what);
    free(what);
    free(step);
    return best;
}

/* the file of the whole model; NULL: the parts are all of it. The caller frees */
static char *whole_file(const mgpu_program *p, const Options *o)
{
    if (o->init && access(o->init, R_OK) != 0)
        mgpu_fail(MGPU_BAD_INPUT, "there are no weights at %s: train first, or name them with --init FILE or --resume DIR",
                  o->init);
    if (o->init) {
        say_file(o->init, "");
        return mgpu_format("%s", o->init);
    }
    if (o->part_count && mgpu_parts_suffice(p, o))
        return NULL;
    char *folder = o->resume ? mgpu_format("%s", o->resume) : mgpu_save_folder(o);
    char *last = mgpu_format("%s/%s", folder, p->average_count ? "average.safetensors" : "weights.safetensors");
    char *best = best_file(p, o, folder, last);
    bool there = best || access(last, R_OK) == 0;
    if (!there && !o->resume && mgpu_parts_suffice(p, o)) /* what it computes depends on no file */
        return NULL;
    if (!there && o->part_count)
        mgpu_fail(MGPU_BAD_INPUT,
                  "the parts of --init are not all of the model, and there are no weights at %s for the rest: name them with "
                  "--init FILE or --save DIR",
                  last);
    if (!there)
        mgpu_fail(MGPU_BAD_INPUT, "there are no weights at %s: train first, or name them with --init FILE or --resume DIR", last);
    if (!best)
        say_file(last, p->best.metric && o->weights != WEIGHTS_LAST ? ": the last; no validation has named the best ones" : "");
    free(folder);
    if (!best)
        return last;
    free(last);
    return best;
}

Engine *mgpu_open_trained(const mgpu_program *program, const Options *o, Feed *feed, Categories *categories, Collect *collect,
                          void *context)
{
    char *path = whole_file(program, o);
    const mgpu_plan *plan = mgpu_choose_plan(program, o);
    Engine *engine = mgpu_engine_open(program, plan, o, collect, context);
    *feed = (Feed){.program = program,
                   .plan = plan,
                   .setting = o->setting,
                   .engine = engine,
                   .seed = o->seed,
                   .total_steps = 1,
                   .steps_per_epoch = 1};
    mgpu_post_alone(feed, MGPU_PHASE_INIT, 0, 0);
    mgpu_engine_drain(engine);
    if (path)
        mgpu_load_model(program, plan, engine, path);
    mgpu_load_parts(program, plan, engine, o, MGPU_MODEL_VIEW);
    if (path)
        mgpu_load_categories(categories, path);
    for (int i = 0; i < o->part_count && !path; i++) /* the last that has some */
        mgpu_load_categories(categories, strchr(o->parts[i], '=') + 1);
    free(path);
    return engine;
}
