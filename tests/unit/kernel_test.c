/* kernel_test.c: the fuser and the host-C printer against the interpreter.
 *
 * Random graphs in f64, and chosen ones, are fused and left separate; all their kernels are printed into one file, compiled
 * once by the C compiler, loaded and run; every output, updated variable and number of the report must agree to 1e-12.
 * Then facts about kernels: how many there are, and that work grows with depth as it should. The arguments, if any, are
 * the C compiler and its flags: kernel_test gcc -O3 -march=native */
#define TEST "kernel"
#include "compiler/ir/program.h"
#include "compiler/kernel/phase.h"
#include "compiler/passes/stages.h"
#include "compiler/plan/schedule.h"
#include "compiler/target/target.h"
#include "kernel_machine.h"
#include "kernel_graphs.h"

#include <time.h>

static const Options fuse_them;

static int kernels_of(const Phase *p)
{
    int count = 0;
    for (int i = 0; i < p->task_count; i++)
        count += p->tasks[i]->kind == TASK_KERNEL;
    return count;
}

/* of this process: others may share the machine */
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* kernels that one thread must do alone are those with little work */
static void check_splits(void)
{
    Graph *g = shared_work();
    Program p = {.model = g->model, .options = &fuse_them, .target = &host_target};
    fuse(&p, g, PHASE_TRAIN, true);
    int count[4] = {0}, finishes = 0;
    for (int i = 0; i < p.kernel_count; i++) {
        const Kernel *k = p.kernels[i];
        count[k->split]++;
        finishes += k->partial_bytes > 0;
        for (int j = 0; j < k->read_count + k->write_count && k->split == MGPU_SPLIT_NONE; j++) {
            const Tensor *t = j < k->read_count ? k->reads[j] : k->writes[j - k->read_count];
            if (t->has_samples || shape_count(&t->shape) >= 8192)
                report("workers share all large kernels", format("not %s: %s", k->name, k->title));
        }
    }
    report("kernels are shared in every way",
           !count[MGPU_SPLIT_SAMPLES] || !count[MGPU_SPLIT_RANGE] || count[MGPU_SPLIT_WORKERS] < 4 || finishes < 3
               ? format("%d by samples, %d by range, %d by thread, %d with partial sums", count[MGPU_SPLIT_SAMPLES],
                        count[MGPU_SPLIT_RANGE], count[MGPU_SPLIT_WORKERS], finishes)
               : NULL);
}

/* Returns the bytes that the tasks touch which write the variable. */
static double bytes_of_writers(const Phase *p, int variable)
{
    double bytes = 0;
    for (int i = 0; i < p->task_count; i++)
        for (int k = 0; k < p->tasks[i]->write_count; k++)
            if (p->tasks[i]->writes[k]->kind == TENSOR_VARIABLE && p->tasks[i]->writes[k]->index == variable)
                bytes += task_bytes(p->tasks[i], 1);
    return bytes;
}

static int large_temporaries(const Phase *p, int64_t elements)
{
    int count = 0;
    for (int i = 0; i < p->tensor_count; i++)
        count += p->tensors[i]->kind == TENSOR_TEMPORARY && shape_count(&p->tensors[i]->shape) >= elements;
    return count;
}

/* A text of so many places: keys of all places, of which each place sees those up to it. */
static Graph *seen_keys(int64_t places)
{
    Model *m = new_model(4);
    DataCall call = {.name = "characters"};
    DataSet set = {.name = "train"};
    APPEND(set.calls, set.call_count, call);
    APPEND(m->sets, m->set_count, set);
    Graph *g = new_graph(m);
    Node *token = new_input(g, I32, SHAPE(places), 30), *table = new_variable(g, F32, SHAPE(30, 16)),
         *w = new_variable(g, F32, SHAPE(16, 16));
    m->inputs[0].name = "token";
    Node *x = NODE(g, OP_GATHER, &(int64_t){0}, 1, NULL, table, token);
    Node *keys = graph_einsum(g, "tc,cd->td", (Node *[]){x, w}, 2, false);
    Node *scores = graph_einsum(g, "tc,sc->ts", (Node *[]){x, keys}, 2, false), *number = graph_arange(g, places);
    Node *from = graph_broadcast(g, graph_reshape(g, number, SHAPE(1, places)), SHAPE(places, places));
    Node *to = graph_broadcast(g, graph_reshape(g, number, SHAPE(places, 1)), SHAPE(places, places));
    scores = graph_where(g, graph_binary(g, OP_LE, from, to), scores, graph_number(g, 0, F32));
    Node *seen = graph_einsum(g, "ts,sc->tc", (Node *[]){scores, keys}, 2, false);
    graph_result(g, ROLE_OUTPUT, "logits", 0, graph_einsum(g, "tc,vc->tv", (Node *[]){seen, table}, 2, false), NULL);
    return g;
}

/* A row costs what it has, however large the variable is in which it is replaced, and so does what a place adds to a cache. */
static void check_replaced(void)
{
    enum { TABLE = 2, CACHED = 2 /* number of the variable in either graph */ };
    double moved[2], kept[2];
    int copies = 0;
    for (int k = 0; k < 2; k++) {
        int64_t rows = k ? 4096 : 64;
        Graph *g = replaced_rows(rows);
        Program p = {.model = g->model, .options = &fuse_them, .target = &host_target};
        moved[k] = bytes_of_writers(fuse(&p, g, PHASE_TRAIN, false), TABLE);
        Graph *decode = derive_decode(seen_keys(rows));
        Program q = {.model = decode->model, .options = &fuse_them, .target = &host_target};
        const Phase *phase = fuse(&q, decode, PHASE_DECODE, false);
        kept[k] = bytes_of_writers(phase, CACHED);
        copies += large_temporaries(phase, rows * 16);
    }
    report("a replaced row costs what it has",
           moved[0] != moved[1] || moved[0] < 2 * 24 * 8 ? format("%g and %g bytes", moved[0], moved[1]) : NULL);
    report("a place adds a row to its cache, and copies none",
           kept[0] != kept[1] || kept[0] < 2 * 16 * 4 || copies ? format("%g and %g bytes, %d copies", kept[0], kept[1], copies)
                                                                : NULL);
}

/* Returns the bytes of a sample, in a batch of so many, that gathers 3 rows of 16 floats from a table of so many rows. */
static double bytes_of_gather(int64_t rows, int64_t batch)
{
    Graph *g = new_graph(new_model(batch));
    Node *token = new_input(g, I32, SHAPE(3), rows), *table = new_variable(g, F32, SHAPE(rows, 16));
    Node *x = NODE(g, OP_GATHER, &(int64_t){0}, 1, NULL, table, token);
    graph_result(g, ROLE_OUTPUT, "y", 0, graph_binary(g, OP_MUL, x, x), NULL);
    Program p = {.model = g->model, .options = &fuse_them, .target = &host_target};
    return task_bytes(fuse(&p, g, PHASE_PREDICT, false)->tasks[0], (double)batch);
}

/* Of a table the rows count that are gathered, at most all of them. */
static void check_gathered(void)
{
    enum { ROW = 16 * 4, SAMPLE = 3 * (2 * ROW + 4) /* rows that are read and written, and their numbers */ };
    double found[] = {bytes_of_gather(1000, 8), bytes_of_gather(50000, 8), bytes_of_gather(20, 8)};
    double expected[] = {8 * SAMPLE, 8 * SAMPLE, 8 * (SAMPLE - 3 * ROW) + 20 * ROW};
    for (int i = 0; i < COUNT(found); i++)
        report(format("what is read of a table, %d", i + 1),
               found[i] != expected[i] ? format("%g bytes, %g expected", found[i], expected[i]) : NULL);
}

/* deep nets: the time per layer stays, equal layers share their kernels */
static void check_depth(void)
{
    double took[2];
    int depths[2] = {100, 1000}, different = 0;
    Phase *phase = NULL;
    for (int i = 0; i < 2; i++) {
        Graph *g = perceptron(depths[i], 16, F32);
        Program p = {.model = g->model, .options = &fuse_them, .target = &host_target};
        double start = processor_seconds();
        phase = fuse(&p, g, PHASE_TRAIN, false);
        took[i] = processor_seconds() - start;
        different = p.kernel_count;
    }
    report("fusing 1000 layers takes about ten times as long as 100",
           took[1] > 25 * took[0] + 0.2 ? format("%.3f s and %.3f s", took[1], took[0]) : NULL);
    report("1000 equal layers share their kernels", different > 60 ? format("%d kernels", different) : NULL);
    int expected = 1000 * 7 + 10; /* three products, bias with relu, its gradient with that of the bias, two updates */
    report("a layer is few kernels", kernels_of(phase) > expected ? format("%d tasks", kernels_of(phase)) : NULL);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int random_graphs = 100;
    int chosen = add_cases(random_graphs);
    Text printed = {0};
    host_target.print_all(&program, &printed);
    void *library = build_host(&printed, argc, argv);
    if (!library)
        return 1;
    const mgpu_kernel *kernels = dlsym(library, "mgpu_kernels");
    report("lanes are stored in runs", strstr(text_of(&printed), "memcpy(") ? NULL : "no kernel does it");
    int good = 0;
    for (int i = 0; i < case_count; i++) {
        int before = good;
        check_case(&cases[i], kernels, &good);
        if (i < chosen && good > before)
            report(cases[i].name, NULL);
    }
    if (good == case_count)
        report(format("%d random graphs, fused and separate", random_graphs), NULL);
    check_splits();
    check_replaced();
    check_gathered();
    check_depth();
    return failed != 0;
}
