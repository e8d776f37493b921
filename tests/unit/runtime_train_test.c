/* The whole runtime with a program written by hand (linear_program.h): each case runs mgpu_main in a child, reads its log
 * and compares with the same training done in a few lines (linear_run.h). */
#include "runtime/weights/weights.h"
#include "runtime/base/base.h"
#include "runtime/data/sets.h"
#include "tests/unit/linear_run.h"

#include <sys/stat.h>
#include <time.h>

static mgpu_program make_program(int64_t batch, int64_t accumulate) { return make_program_of("host", batch, accumulate); }

/* ---- cases */
static void test_losses(Test *t)
{
    static const struct {
        int batch, accumulate;
        bool shuffle;
    } CASES[] = {{8, 1, true}, {8, 1, false}, {7, 1, true}, {2, 1, true},
                 {8, 2, true}, {7, 3, true},  {1, 1, true}, {64, 4, true}};
    for (int c = 0; c < MGPU_COUNT(CASES); c++) {
        mgpu_program p = make_program(CASES[c].batch, CASES[c].accumulate);
        Reference r;
        reference(&r, CASES[c].batch, 3, CASES[c].shuffle);
        for (int devices = 1; devices <= 4; devices++) {
            char *arguments = mgpu_format("--devices %d --log log --no-save%s", devices, CASES[c].shuffle ? "" : " --no-shuffle");
            char *name = mgpu_format("losses/batch-%d-accumulate-%d-shuffle-%d-devices-%d", CASES[c].batch, CASES[c].accumulate,
                                     CASES[c].shuffle, devices);
            const char *why = "exit status";
            say(t, name, run(t, &p, arguments) == 0 && same_losses(t, "log", &r, &why), why);
        }
    }
}

static bool same_files(const Test *t, const char *a, const char *b)
{
    size_t length_a, length_b;
    char *text_a = read_text(t, a, &length_a), *text_b = read_text(t, b, &length_b);
    bool same = length_a && length_a == length_b && memcmp(text_a, text_b, length_a) == 0;
    free(text_a);
    free(text_b);
    return same;
}

/* the same numbers with any number of threads; the same bits again with the same number */
static void test_threads(Test *t)
{
    static const int THREADS[] = {1, 2, 3, 5, 8, 16};
    mgpu_program p = make_program(7, 2);
    Reference r;
    reference(&r, 7, 3, true);
    for (int i = 0; i < MGPU_COUNT(THREADS); i++)
        for (int devices = 1; devices <= 3; devices += 2) {
            const char *why = "exit status";
            for (int again = 0; again < 2; again++) {
                char *arguments =
                    mgpu_format("--devices %d --threads %d --log log --save %s", devices, THREADS[i], again ? "b" : "a");
                char *name = mgpu_format("threads/%d-devices-%d%s", THREADS[i], devices, again ? "-again" : "");
                bool good = run(t, &p, arguments) == 0 && same_losses(t, "log", &r, &why);
                if (good && again) {
                    why = "the weights differ";
                    good = same_files(t, "a/weights.safetensors", "b/weights.safetensors");
                }
                say(t, name, good, why);
            }
        }
}

/* the metrics of every epoch, as the log writes them */
static char *epoch_metrics(const Test *t, const char *log)
{
    size_t length;
    char *text = read_text(t, log, &length), *rest = NULL, *found = mgpu_allocate(1, 1);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *metrics = strstr(line, "\"metrics\"");
        if (!strstr(line, "\"event\":\"epoch\"") || !metrics)
            continue;
        char *longer = mgpu_format("%s%.*s ", found, (int)strcspn(metrics, "}"), metrics);
        free(found);
        found = longer;
    }
    free(text);
    return found;
}

static void test_resume(Test *t)
{
    static const int STOPS[] = {1, 3, 4, 9};
    mgpu_program p = make_program(6, 2);
    Reference r;
    reference(&r, 6, 3, true);
    run(t, &p, "--log log --no-save");
    char *metrics = epoch_metrics(t, "log");
    say(t, "resume/metrics", strstr(metrics, "accuracy") != NULL, metrics);
    for (int i = 0; i < MGPU_COUNT(STOPS); i++) {
        char *stopped = mgpu_format("--devices 2 --stop-after %d --log log --save a/b", STOPS[i]),
             *name = mgpu_format("resume/metrics-%d", STOPS[i]);
        run(t, &p, stopped);
        run(t, &p, "--devices 3 --log log --resume a/b");
        say(t, name, strcmp(metrics, epoch_metrics(t, "log")) == 0, epoch_metrics(t, "log"));
    }
    for (int i = 0; i < MGPU_COUNT(STOPS); i++) {
        char *first = mgpu_format("--devices %d --steps %d --log log --save a/b", i % 3 + 1, STOPS[i]);
        char *second = mgpu_format("--devices=%d --log log --resume a/b --epochs 3", (i + 1) % 3 + 1);
        char *name = mgpu_format("resume/step-%d", STOPS[i]);
        const char *why = "exit status";
        say(t, name, run(t, &p, first) == 0 && run(t, &p, second) == 0 && same_losses(t, "log", &r, &why), why);
    }
    say(t, "resume/stop-after",
        run(t, &p, "--stop-after 5 --log log --save s0") == 0 && run(t, &p, "--log log --resume s0") == 0 &&
            same_losses(t, "log", &r, &(const char *){0}),
        "losses");
    say(t, "resume/nothing-left", run(t, &p, "--resume a/b") == 0 && said(t, "nothing is left"), "message");
    say(t, "resume/other-batch", run(t, (mgpu_program[]){make_program(5, 1)}, "--resume a/b") == 1 && said(t, "batch of 6"),
        "message");
    say(t, "resume/other-seed", run(t, &p, "--resume a/b --seed 3") == 2 && said(t, "keeps it"), "message");
    say(t, "twice/run", run(t, &p, "--devices 3 --save s1") == 0 && run(t, &p, "--devices 3 --save s2") == 0, "exit status");
    say(t, "twice/weights", same_files(t, "s1/weights.safetensors", "s2/weights.safetensors"), "the files differ");
    say(t, "twice/optimizer", same_files(t, "s1/optimizer.safetensors", "s2/optimizer.safetensors"), "the files differ");
    say(t, "twice/run.json", same_files(t, "s1/run.json", "s2/run.json"), "the files differ");
}

/* Of the layout without manifests: a save that was interrupted while it renamed its files is read, whole; one that was
 * interrupted before is ignored. The run that goes on there leaves the layout of today */
static void test_interrupted_save(Test *t)
{
    mgpu_program p = make_program(6, 1);
    run(t, &p, "--steps 4 --save old");
    run(t, &p, "--steps 6 --save new");
    char *command = mgpu_format(
        "cd %s && mkdir plain mixed && cp -L new/*.safetensors new/run.json mixed && cp mixed/weights.safetensors plain && "
        "cp -L old/optimizer.safetensors old/run.json plain && cp mixed/run.json plain/run.json.new && "
        "cp mixed/optimizer.safetensors plain/optimizer.safetensors.new && cp -r plain plain2",
        t->folder);
    say(t, "save/renames-are-finished",
        system(command) == 0 && run(t, &p, "--resume plain --no-save --steps 6") == 0 && said(t, "nothing is left"), "");
    command = mgpu_format("cd %s && diff -r plain plain2", t->folder);
    say(t, "save/reading-changes-nothing", system(command) == 0, "");
    say(t, "save/goes-on",
        run(t, &p, "--resume plain --steps 7") == 0 && run(t, &p, "--resume plain --steps 7") == 0 && said(t, "nothing is left"),
        "");
    command = mgpu_format("cd %s/plain && ls | tr '\\n' ' ' && test -L weights.safetensors && test \"$(ls | tr '\\n' ' ')\" = "
                          "'current lock optimizer.safetensors run.json saves weights.safetensors '",
                          t->folder);
    say(t, "save/new-layout", system(command) == 0, "");
    command = mgpu_format("cd %s && cp -r mixed early && echo junk > early/weights.safetensors.new", t->folder);
    say(t, "save/remains-are-ignored", system(command) == 0 && run(t, &p, "--resume early --steps 7") == 0, "");
    command = mgpu_format("cd %s && cp -L old/weights.safetensors mixed/", t->folder);
    say(t, "save/mixed",
        system(command) == 0 && run(t, &p, "--resume mixed --steps 8") == 1 && said(t, "were not saved together"), "");
}

static void write_weights(const Test *t, const SavedTensor *tensors, int count)
{
    char *path = mgpu_format("%s/w.safetensors", t->folder);
    FILE *f = fopen(path, "wb");
    FileLayout l = mgpu_lay_out(tensors, count, &(FileMetadata){-1, NULL});
    fwrite(l.header, 1, (size_t)l.header_bytes, f);
    for (int64_t i = l.header_bytes; i < l.bytes; i++)
        fputc(0, f);
    mgpu_close_layout(&l);
    fclose(f);
    free(path);
}

static void test_init(Test *t)
{
    mgpu_program p = make_program(4, 1);
    SavedTensor good[] = {{.tensor = {"fc.weight", MGPU_F32, 2, {OUT, IN}}},
                          {.tensor = {"bn.num_batches_tracked", MGPU_I64, 0, {0}}}};
    SavedTensor other[] = {{.tensor = {"fc.weights", MGPU_F64, 2, {OUT, IN}}}};
    SavedTensor turned[] = {{.tensor = {"fc.weight", MGPU_F64, 2, {IN, OUT}}}},
                whole[] = {{.tensor = {"fc.weight", MGPU_I32, 2, {OUT, IN}}}};
    write_weights(t, good, 2);
    say(t, "init/other-precision", run(t, &p, "--init w.safetensors --steps 1 --log log --no-save") == 0, "exit status");
    double loss[64], valid_loss, valid_accuracy; /* all weights 0: the loss of every sample is 1 */
    say(t, "init/weights", read_losses(t, "log", loss, &valid_loss, &valid_accuracy) == 1 && loss[0] == 1, "loss");
    write_weights(t, other, 1);
    say(t, "init/names", run(t, &p, "--init w.safetensors") == 1 && said(t, "missing: fc.weight; not in the model: fc.weights"),
        "");
    write_weights(t, turned, 1);
    say(t, "init/shape",
        run(t, &p, "--init w.safetensors") == 1 && said(t, "'fc.weight' has the shape [3, 5], the model has [5, 3]"), "");
    write_weights(t, whole, 1);
    say(t, "init/type", run(t, &p, "--init w.safetensors") == 1 && said(t, "'fc.weight' is i32, the model has f64"), "");
}

static void test_eval_and_predict(Test *t)
{
    mgpu_program p = make_program(4, 1);
    Reference r;
    reference(&r, 4, 3, true);
    run(t, &p, "--devices 2");
    char *numbers = mgpu_format("loss %.6g  accuracy %.6g", r.valid_loss, r.valid_accuracy);
    say(t, "eval", run(t, &p, "eval --devices 3") == 0 && said(t, numbers), "numbers");
    say(t, "eval/named", run(t, &p, "eval train --devices 1 --resume train.save") == 0 && said(t, "train  samples 21"), "");
    say(t, "eval/no-weights", run(t, &p, "eval --resume nowhere") == 1 && said(t, "there are no weights"), "");
    say(t, "predict", run(t, &p, "predict valid-x.idx -o out.npy --devices 3") == 0, "exit status");
    char *path = mgpu_format("%s/out.npy", t->folder);
    Array a;
    mgpu_read_npy(&a, path, "", false, false, NULL);
    bool same = a.samples == VALID && a.rank == 1 && a.extent[0] == OUT && a.dtype == MGPU_F64;
    for (int s = 0; same && s < VALID; s++)
        for (int o = 0; o < OUT; o++) {
            double x[IN];
            for (int i = 0; i < IN; i++)
                x[i] = sample_x(true, s, i);
            same = same && fabs(((double *)a.data)[s * OUT + o] - output_of(r.w, x, o)) < 1e-12;
        }
    say(t, "predict/values", same, "values");
    say(t, "predict/csv", run(t, &p, "predict x=valid-x.idx -o out.csv") == 0, "exit status");
    size_t length;
    char *csv = read_text(t, "out.csv", &length);
    say(t, "predict/csv-header", strncmp(csv, "sample,y_0,y_1,y_2,y_3,y_4\n0,", 29) == 0, csv);
    say(t, "predict/missing", run(t, &p, "predict -o out.npy") == 2 && said(t, "no file for the input 'x'"), "");
    say(t, "predict/suffix", run(t, &p, "predict valid-x.idx -o out.txt") == 2 && said(t, ".npy or .csv"), "");
    say(t, "predict/label", run(t, &p, "predict valid-x.idx label=valid-label.idx -o o.npy") == 2 && said(t, "no output depends"),
        "");
}

#define IN_QUOTES(x) #x
#define IN_WORDS(x) IN_QUOTES(x)

static void test_command_line(Test *t)
{
    static const struct {
        const char *arguments;
        int status;
        const char *message;
    } CASES[] = {
        {"--devices 7", 2, "this program holds plans for 1, 2, 3, 4 devices, not 7; compile with: mgpuc --devices 7 linear.net"},
        {"--devices cuda:2", 2, "not 2 cuda"},
        {"--devices 1,2", 2, "one count or kind"},
        {"--set batch=4", 2, "compile again with: mgpuc linear.net -o train --set batch=4"},
        {"--set lrr=4", 2, "did you mean 'lr'?"},
        {"--set momentum=4", 2, "here --set takes lr, "},
        {"--set momentum=4", 2, "see mgpuc --help for what is fixed at compile time"},
        {"--set lr=fast", 2, "a number was expected"},
        {"--set lr", 2, "NAME=VALUE"},
        {"--epoch 4", 2, "did you mean '--epochs'?"},
        {"--epochs 0", 2, "at least 1"},
        {"--epochs", 2, "needs a value"},
        {"--json", 2, "means nothing to the command train"},
        {"evil", 2, "did you mean 'eval'?"},
        {"--init a --resume b", 2, "exclude each other"},
        {"--data nowhere", 1, "linear.net:20: there is no file train-x.idx, nor train-x.idx.gz, in the folder nowhere"},
        {"--resume nowhere", 1, "there is no saved run"},
        {"--save /proc/nowhere", 3, "cannot be made"},
        {"--version", 0, "interface " IN_WORDS(MGPU_INTERFACE)},
        {"--help", 0, "Exit status"},
        {"info", 0, "fc.weight"},
        {"bench --json --steps 3 --devices 3", 0, "\"step_ms\": ["},
        {"bench", 0, "samples/s"},
    };
    mgpu_program p = make_program(6, 1);
    static const mgpu_layer LAYER = {"fc.weight", {"", MGPU_F64, 1, {OUT}}, IN * OUT, 3};
    p.layers = &LAYER;
    p.layer_count = 1;
    for (int i = 0; i < MGPU_COUNT(CASES); i++) {
        char *name = mgpu_format("command/%s", CASES[i].arguments), why[40];
        int status = run(t, &p, CASES[i].arguments);
        snprintf(why, sizeof why, "status %d, or the message", status);
        say(t, name, status == CASES[i].status && said(t, CASES[i].message), why);
    }
    mgpu_program old = p;
    old.interface = 0;
    say(t, "command/interface", run(t, &old, "info") == 3 && said(t, "compile linear.net again"), "");
}

static void test_signals(Test *t)
{
    mgpu_program p = make_program(4, 1);
    Reference r;
    reference(&r, 4, 3, true);
    static const struct {
        int signal, status;
    } CASES[] = {{SIGINT, 130}, {SIGTERM, 143}};
    for (int i = 0; i < MGPU_COUNT(CASES); i++) {
        pid_t child = start(t, &p, "--epochs 100000000 --no-eval --devices 3 --save int --log log");
        char *name = mgpu_format("signal/%d", CASES[i].signal);
        for (int waited = 0; waited < 2000; waited++) { /* until it trains */
            struct timespec pause = {0, 5000000};
            nanosleep(&pause, NULL);
            size_t length;
            char *text = read_text(t, "log", &length);
            bool trains = strstr(text, "\"step\":20,") != NULL;
            free(text);
            if (trains)
                break;
        }
        kill(child, CASES[i].signal);
        int status = finish(child);
        say(t, name, status == CASES[i].status && run(t, &p, "eval --resume int") == 0, "status, or nothing was saved");
        remove(mgpu_format("%s/log", t->folder));
    }
}

static void test_crash(Test *t)
{
    mgpu_program p = make_program(4, 1);
    say(t, "crash",
        run(t, &p, "--devices 2 --set crash=1 --no-save") == 3 && said(t, ", step 3, phase train.full, operation c") &&
            said(t, "gradient (linear.net, line 10"),
        "message");
    say(t, "crash/locks",
        run(t, &p, "--devices 1 --threads 1 --set crash=2 --no-save") == 3 && said(t, "failed: Segmentation fault") &&
            said(t, "gradient (linear.net, line 10"),
        "message");
    say(t, "crash/thread",
        run(t, &p, "--devices 2 --threads 6 --set crash=1 --no-save") == 3 &&
            said(t, ", step 3, phase train.full, operation c") && said(t, "gradient (linear.net, line 10"),
        "message");
}

/* as k_update, but in step 5 one device gets another weight */
static void k_update_wrong(void *const *a, const mgpu_step *step, const mgpu_part *part)
{
    static _Atomic int wrong;
    k_update(a, step, part);
    if (step->step == 5 && part->begin == 0 && atomic_fetch_add(&wrong, 1) == 0)
        ((double *)a[4])[0] += 1e-9;
}

static void test_audit(Test *t)
{
    mgpu_program p = make_program(4, 1), right = p;
    mgpu_kernel kernels[MGPU_COUNT(KERNELS)];
    memcpy(kernels, KERNELS, sizeof kernels);
    kernels[K_UPDATE].run = k_update_wrong;
    p.kernels = kernels;
    say(t, "audit/off", run(t, &p, "--devices 3 --no-save") == 0, "status");
    setenv("MGPU_AUDIT", "5", 1);
    say(t, "audit/right", run(t, &right, "--devices 3 --no-save") == 0, "status");
    say(t, "audit/three",
        run(t, &p, "--devices 3 --no-save") == 3 &&
            said(t, "step 5: the devices do not hold the same weights: 'fc.weight' on device ") &&
            said(t, " is not what the other 2 hold"),
        "message");
    say(t, "audit/two", run(t, &p, "--devices 2 --no-save") == 3 && said(t, "'fc.weight' differs among devices 0 to 1"),
        "message");
    setenv("MGPU_AUDIT", "1000", 1);
    say(t, "audit/saves",
        run(t, &p, "--devices 2 --save audited --stop-after 6") == 3 && said(t, "step 6: the devices") &&
            said(t, "nothing was saved"),
        "message");
    setenv("MGPU_AUDIT", "often", 1);
    say(t, "audit/usage",
        run(t, &p, "--devices 2 --no-save") == 2 && said(t, "MGPU_AUDIT is a number of steps, at least 1, or off, not 'often'"),
        "message");
    unsetenv("MGPU_AUDIT");
}

int main(void)
{
    Test t = open_test();
    test_losses(&t);
    test_threads(&t);
    test_resume(&t);
    test_interrupted_save(&t);
    test_init(&t);
    test_eval_and_predict(&t);
    test_command_line(&t);
    test_signals(&t);
    test_crash(&t);
    test_audit(&t);
    remove_folder(t.folder);
    return t.failed != 0;
}
