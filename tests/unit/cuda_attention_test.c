/* cuda_attention_test: attention as CUDA C (compiler/target/cuda/attention.c, runtime/abi/mgpu_device_attention.h) on the virtual
 * GPU, against the interpreter: the cases of attention_cases.h, forward, for all gradients, for some alone. Each runs twice, with
 * different grids and orders of threads: the same bits. Some run as PTX with wgmma, too, right and with planted errors. */
#include "compiler/kernel/phase.h"
#include "tests/unit/cuda_module.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include "compiler/target/cuda/tiles.h"
#include "tests/unit/attention_cases.h"

enum { MODULES = 4, CHECKED = MODULES - 1 };

/* one kernel */
typedef struct Job {
    const Case *item;
    Setup *setup;
    Dtype type;
    Node *nodes[ATTENTION_RESULTS];
    int count;
    Attention *plan;
    const char *name, *what;
} Job;
static Job *jobs;
static int job_count, failures;

static const Case MORE[] = {
    {"aligned, several blocks", 2, 150, 150, 2, 1, 32, 64, true, 0, 0.2, APART, 0, 0, 0},
    {"parts of 128", 1, 70, 90, 1, 1, 128, 128, false, 0, 0.1, APART, 0, 0, 0},
    {"parts of 80", 1, 40, 40, 2, 2, 80, 80, true, 0, 0.1, ONE, 0, 0, 0},
    {"three blocks of 128", 1, 260, 260, 2, 2, 64, 64, true, 0, 0.125, ONE, 0, 0, 0},
    {"a short window", 1, 200, 260, 1, 1, 16, 16, true, 5, 0.3, APART, 0, 0, 0},
    {"a window of parts of 128", 1, 70, 90, 1, 1, 128, 128, true, 20, 0.1, APART, 0, 0, 0},
    {"parts of 256", 1, 70, 90, 1, 1, 256, 256, false, 0, 0.1, APART, 0, 0, 0},
};

/* every access asked about, these take most of the test */
static bool has_many_accesses(const Case *c) { return c->d > 1000 || c->keys > 1000; }
static bool takes_long(const Case *c)
{
    return has_many_accesses(c) || c->queries * c->keys * c->d > (is_brief() ? 800000 : 400000);
}

static void add_job(const Case *c, Setup *s, Dtype type, Node *const *nodes, int count, const char *what)
{
    Job own = {.item = c, .setup = s, .type = type, .count = count, .what = what, .name = format("k%d", job_count)};
    const Node *base[ATTENTION_OPERANDS];
    const Tensor *operand[ATTENTION_OPERANDS], *result[ATTENTION_RESULTS];
    for (int i = 0; i < count; i++) {
        Tensor *made = NEW(Tensor);
        *made = tensor_of(nodes[i]);
        own.nodes[i] = nodes[i];
        result[i] = made;
    }
    for (int k = 0; k < nodes[0]->inputs; k++) {
        Tensor *read = NEW(Tensor);
        base[k] = attention_operand(nodes[0]->in[k], is_stored);
        *read = tensor_of(base[k]);
        operand[k] = read;
    }
    own.plan = attention_plan((const Node *const *)own.nodes, count, base, operand, result);
    APPEND(jobs, job_count, own);
}

enum { FORWARD = 1, GRADIENTS = 2, ALONE = 4 /* one gradient each */ };

static void add_jobs(const Case *c, Dtype type, bool tf32, int what)
{
    Setup *s = NEW(Setup);
    Node *all[ALL_RESULTS], **gradient = all + FORWARD_RESULTS;
    set_up(s, c, type, tf32);
    s->run.context = s;
    compute_all(s, c, true, all);
    if (what & FORWARD)
        add_job(c, s, type, all, FORWARD_RESULTS, "forward");
    if (what & ALONE) {
        add_job(c, s, type, all, 1, "forward, alone");
        add_job(c, s, type, all + 1, 1, "sums");
    }
    if (what & GRADIENTS && (what & ALONE || c->lie != ONE || !gradient[3]))
        add_job(c, s, type, gradient, 3, "all gradients");
    if (gradient[3] && what & GRADIENTS && (what & ALONE || c->lie == ONE))
        add_job(c, s, type, gradient + 3, 1, "gradients in one");
    for (int which = 0; which < 3 && what & ALONE; which++)
        add_job(c, s, type, gradient + which, 1, format("gradient %d", which));
}

static const char *run_job(const Job *j, void *module, CheckedGpu *gpu)
{
    Setup *s = j->setup;
    enum { MOST = ATTENTION_OPERANDS + ATTENTION_RESULTS + 1 };
    Guarded memory[MOST];
    void *arguments[MOST], *first[ATTENTION_RESULTS];
    int inputs = j->nodes[0]->inputs, count = inputs + j->count;
    int64_t bytes[MOST], per_sample, work = cuda_attention_workspace(j->plan, &per_sample) + per_sample * j->item->samples;
    for (int i = 0; i < count; i++) {
        const Node *node = i < inputs ? attention_operand(j->nodes[0]->in[i], is_stored) : j->nodes[i - inputs];
        int64_t elements = shape_count(&node->shape) * (node->has_samples ? j->item->samples : 1);
        const double *values = NULL;
        for (int leaf = 0; leaf < OPERANDS && i < inputs; leaf++)
            values = s->leaf[leaf] == node ? s->value[leaf] : values;
        void *stored = as_type(values, elements, node->dtype);
        bytes[i] = elements * dtype_bytes(node->dtype);
        memory[i] = guarded(bytes[i]);
        memcpy(memory[i].begin, stored, (size_t)bytes[i]);
        free(stored);
    }
    bytes[count] = work;
    memory[count] = guarded(work);
    for (int i = 0; i <= count; i++)
        arguments[i] = memory[i].begin;
    mgpu_launch launch[2];
    cuda_launches_attention(j->plan, j->name, launch);
    const char *wrong = NULL;
    for (int turn = 0; turn < 2 && !wrong; turn++) {
        for (int i = inputs; i <= count; i++)
            memset(arguments[i], 0xff, (size_t)bytes[i]);
        wrong = run_launches(module, launch, arguments, count + (work > 0), j->item->samples, turn ? 3 : 0, (uint64_t)turn * 999);
        wrong = wrong ? wrong : compare_results(s, j->item, j->nodes, j->count, arguments + inputs);
        if (turn == 0)
            keep_forward(s, j->item, j->nodes, j->count, arguments + inputs);
        for (int i = 0; i < j->count && !wrong; i++) {
            size_t size = (size_t)bytes[inputs + i];
            if (turn == 0)
                first[i] = memcpy(malloc(size + 1), arguments[inputs + i], size);
            else if (memcmp(first[i], arguments[inputs + i], size) != 0)
                wrong = "other results with another grid";
        }
    }
    if (gpu && !wrong)
        wrong = run_checked(gpu, launch, arguments, bytes, inputs, count + (work > 0), j->item->samples);
    for (int i = 0; i <= count; i++)
        give_back(&memory[i]);
    return wrong;
}

/* the last: every access is asked about; in short runs the first one is not optimised, what takes long is in the second */
static int module_of(int job, bool full)
{
    return full || (job % (is_brief() ? 2 * MODULES : MODULES) == CHECKED && !takes_long(jobs[job].item))
               ? job % MODULES
               : takes_long(jobs[job].item);
}

static void run_jobs(void *const *modules, CheckedGpu *gpu, bool full)
{
    int bad = 0;
    for (int i = 0; i < job_count; i++) {
        int m = module_of(i, full);
        const char *wrong = run_job(&jobs[i], modules[m], m == CHECKED ? gpu : NULL);
        if (wrong)
            printf("not ok attention %s: %s: %s: %s\n", jobs[i].setup->model.tf32 ? "tf32" : dtype_name(jobs[i].type),
                   jobs[i].item->name, jobs[i].what, wrong);
        bad += wrong != NULL;
    }
    if (bad == 0)
        printf("ok attention on the virtual GPU, %d kernels\n", job_count);
    failures += bad;
}

static bool is_by_warpgroups(const Job *j)
{
    Text text = {0};
    cuda_print_attention(j->plan, j->name, &text);
    return strstr(text.data, "MGPU_BY_WARPGROUPS") != NULL;
}

static int first_by_warpgroups(void)
{
    int i = 0;
    while (i < job_count && !is_by_warpgroups(&jobs[i]))
        i++;
    return i;
}

/* tf32: operands of 32 bits, of long rows whose results fill the registers, too */
static bool is_tight(const Job *j) { return j->setup->model.tf32 && j->item->d >= 128 && j->item->d <= 256; }

/* Jobs first, first + every, ... -> how many texts are wrong. Those by warpgroups, and no others, have an image for sm_90a in
 * place of sm_90 (compiler/link/translation_units.c). */
static int wrong_jobs(const Nvrtc *nvrtc, int first, int every, bool tight, const char *arch)
{
    bool apart = strcmp(arch, "sm_90") == 0;
    int bad = 0;
    for (int groups = 0; groups <= apart; groups++) {
        Text text = {0};
        int count = 0;
        text_add(&text, "%s", MODULE_HEAD);
        for (int i = first; i < job_count; i += every)
            if (is_tight(&jobs[i]) == tight && (!apart || is_by_warpgroups(&jobs[i]) == groups) && ++count)
                cuda_print_attention(jobs[i].plan, jobs[i].name, &text);
        const char *own = groups ? "sm_90a" : arch, *wrong = count ? wrong_with_nvrtc(nvrtc, &text, own) : NULL;
        if (wrong)
            printf("not ok NVRTC for %s: %s\n", own, wrong);
        bad += wrong != NULL;
        free(text.data);
    }
    return bad;
}

/* false: NVRTC is not installed */
static bool compile_jobs(bool full)
{
    static const char *const archs[] = {"sm_90a", "sm_80", "sm_100", "sm_90"};
    Nvrtc nvrtc;
    if (!open_nvrtc(&nvrtc)) {
        printf("skip NVRTC: it is not installed\n");
        return false;
    }
    /* NVRTC takes many kernels at once longer than one by one; each is for one architecture */
    int bad = 0, texts = full ? 16 : 1;
    for (int k = 0; k < texts; k++)
        bad += wrong_jobs(&nvrtc, full ? k : first_by_warpgroups(), full ? texts : job_count, false, archs[k % COUNT(archs)]);
    for (int k = 1; k < COUNT(archs) && full; k++)
        bad += wrong_jobs(&nvrtc, 0, 1, true, archs[k]);
    if (bad == 0)
        printf("ok NVRTC: no warning, no spilled register\n");
    failures += bad;
    return true;
}

static const char *open_all(const char *folder, void *modules[MODULES], bool full)
{
    for (int m = 0; m < MODULES; m++) {
        Text text = {0};
        text_add(&text, "%s", MODULE_HEAD);
        for (int i = 0; i < job_count; i++)
            if (module_of(i, full) == m)
                cuda_print_attention(jobs[i].plan, jobs[i].name, &text);
        if (!write_text(format("%s/module%d.cu", folder, m), &text))
            return "a text cannot be written";
    }
    const char *wrong = build_modules(folder, "qooc");
    return wrong ? wrong : open_modules(folder, MODULES, modules);
}

/* ---- by wgmma, in processes of their own: PTX for compute capability 9.0 */

typedef struct Planted {
    const char *what, *from, *to, *said;
} Planted;
static const Planted PLANTED[] = {
    {"no wgmma.fence", "wgmma.fence.sync.aligned;", "", "wgmma: "},
    {"no wait for wgmma", "wgmma.wait_group.sync.aligned 0;", "", "wgmma: "},
    {"no fence.proxy.async", "fence.proxy.async.shared::cta;", "", "proxy: "},
    {"no wait for copies", "cp.async.wait_group", "//", ""},
    /* 64, 32 times 16 in bits 32 and up */
    {"half of the bytes between eight lines in descriptors", "4611686293305294848", "4611686155866341376", " off"},
};

static bool is_long(const Job *j) { return strcmp(j->item->name, "three blocks of 128") == 0; }

/* PTX with what is planted: FOLDER/module2.ptx of module1.ptx; false: there is no place for it */
static bool plant(const char *folder, const Planted *p)
{
    size_t length;
    const char *at = read_file(format("%s/module1.ptx", folder), &length), *found;
    Text text = {0};
    for (; (found = strstr(at, p->from)); at = found + strlen(p->from))
        text_add(&text, "%.*s%s", (int)(found - at), at, p->to);
    text_add(&text, "%s", at);
    return text.length != length && write_text(format("%s/module2.ptx", folder), &text);
}

/* NULL: these are right, else the first that is not */
static const char *run_by_warpgroups(const char *folder, int number, const int *which, int count)
{
    CheckedGpu gpu = {0};
    void *module = open_module(folder, number);
    if (!module || !open_checked(&gpu, folder, number))
        return "a module cannot be opened";
    for (int i = 0; i < count; i++) {
        const Job *j = &jobs[which[i]];
        const char *wrong = run_job(j, module, has_many_accesses(j->item) ? NULL : &gpu);
        if (wrong)
            return format("%s: %s: %s: %s", dtype_name(j->type), j->item->name, j->what, wrong);
    }
    return NULL;
}

static bool is_right(const char *folder, const Planted *p, int number, const int *which, int count)
{
    (void)p;
    const char *wrong = run_by_warpgroups(folder, number, which, count);
    if (wrong)
        printf("not ok attention by wgmma: %s\n", wrong);
    return !wrong;
}

static bool is_found(const char *folder, const Planted *p, int number, const int *which, int count)
{
    const char *wrong = plant(folder, p) ? run_by_warpgroups(folder, number, which, count) : "it cannot be planted";
    bool found = wrong && strstr(wrong, p->said);
    if (!found)
        printf("not ok planted in attention by wgmma, %s: %s: %s\n", jobs[*which].what, p->what, wrong ? wrong : "not found");
    return found;
}

/* whether it ends with 0, in a process of its own: what a GPU has seen stays with a process */
static bool in_child(bool (*run)(const char *, const Planted *, int, const int *, int), const char *folder, const Planted *p,
                     int number, const int *which, int count)
{
    int status = 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bool good = run(folder, p, number, which, count);
        fflush(stdout);
        _exit(!good);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* module 1: those in which errors are planted; in short runs forward alone, and every other error */
static int run_all_by_warpgroups(const char *all, bool full)
{
    int *which[2] = {NULL, NULL}, count[2] = {0, 0}, some = 0, bad = 0;
    const char *folder = format("%s/wgmma", all), *quick = getenv("QUICK_CC");
    Text text[2] = {0};
    for (int m = 0; m < 2; m++)
        text_add(&text[m], "%s", MODULE_HEAD);
    for (int i = 0; i < job_count; i++) {
        bool wide = is_long(&jobs[i]) && jobs[i].type == BF16, planted = wide && (full || !count[1]);
        if (is_by_warpgroups(&jobs[i]) && (full || wide || (!is_brief() && some++ % 12 == 0))) {
            cuda_print_attention(jobs[i].plan, jobs[i].name, &text[planted]);
            APPEND(which[planted], count[planted], i);
        }
    }
    setenv("MGPU_TEST_PTX", "compute_90a", 1);
    if (!full && quick) /* the compiler of what is translated */
        setenv("CC", quick, 1);
    if (mkdir(folder, 0700) || !write_text(format("%s/module0.cu", folder), &text[0]) ||
        !write_text(format("%s/module1.cu", folder), &text[1]) || build_modules(folder, "oo"))
        bad = printf("not ok attention by wgmma: it cannot be compiled\n") > 0;
    for (int m = 0; m < 2 && !bad; m++)
        bad = !in_child(is_right, folder, NULL, m, which[m], count[m]);
    if (!bad)
        printf("ok attention by wgmma, %d kernels as PTX\n", count[0] + count[1]);
    int planted = 0;
    for (int k = 0; k < COUNT(PLANTED) && !bad; k += full ? 1 : 2)
        for (int i = 0; i < count[1]; i++, planted++)
            bad += !in_child(is_found, folder, &PLANTED[k], 2, &which[1][i], 1);
    if (!bad)
        printf("ok planted errors in attention by wgmma: %d found\n", planted);
    unsetenv("MGPU_TEST_PTX");
    return bad;
}

int main(void)
{
    char folder[] = "/tmp/cuda_attention_test.XXXXXX";
    void *modules[MODULES];
    const char *all = getenv("MGPU_FULL");
    bool full = all && *all, brief = is_brief();
    if (!mkdtemp(folder)) {
        printf("skip attention for GPUs: no folder for kernels\n");
        return 0;
    }
    for (int k = 0; k < 5; k++) {
        const Dtype type = (Dtype[]){F64, BF16, F32, F16, F32}[k];
        const bool tf32 = k == 4;
        const int count = COUNT(CASES) + COUNT(MORE);
        for (int i = 0; i < count; i++) {
            Case *c = NEW(Case);
            *c = i < COUNT(CASES) ? CASES[i] : MORE[i - COUNT(CASES)];
            if (brief && c->queries * c->keys * c->d > 400000)
                c->samples = 1;
            bool blind = c->low > 0 || c->keys < c->queries; /* rows see nothing in a block, or at all */
            int half = i / 4 + (brief && type == F16), some = i == 1 && !tf32                    ? ALONE
                                                              : !brief && (type == BF16 || tf32) ? FORWARD | GRADIENTS
                                                              : half % 2                         ? FORWARD
                                                                                                 : GRADIENTS;
            bool several = c->queries > 128 && c->keys > 128,
                 both = several ? type == (full || i % 2 ? F64 : BF16) : blind && type == (i % 2 ? BF16 : F64);
            both = both || (c->large != 0 && type == (i % 2 ? BF16 : F32) && !(brief && i % 3));
            if (type == F16 && c->queries * c->keys * c->d > 100000) /* these take long, and the kernels are those of bf16 */
                some = FORWARD;
            bool tight = tf32 && c->d >= 128 && c->d <= 256;
            if (!has_range(c, type) || (!full && c->d == 256))
                continue;
            if (both || (full ? (several && type == BF16) || tight || is_of_today(i + k, 3)
                              : !(brief && (several || blind)) && (tf32 ? i % 5 == 1 : i % 4 == k)))
                add_jobs(c, type, tf32, full ? FORWARD | GRADIENTS | ALONE : both ? FORWARD | GRADIENTS : some);
        }
    }
    if (compile_jobs(full) && !ptx_arch())
        failures += run_all_by_warpgroups(folder, full);
    const char *wrong = open_all(folder, modules, full);
    if (wrong) {
        printf("not ok build of the kernels: %s\n", wrong);
        failures++;
    } else {
        CheckedGpu gpu = {0}, *checked = checked_gpu(&gpu, folder, MODULES - 1, &failures);
        run_jobs(modules, checked, full);
    }
    if (!getenv("KEEP") && system(format("rm -r %s", folder)) != 0)
        printf("not ok remove %s\n", folder);
    return failures > 0;
}
