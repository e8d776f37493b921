/* read.c: the text of a machine file -> Machine. The format:
 *
 * A line is a fact, # begins a comment. DEVICES is a number, 2-5, or * for all; END is one of these, host, or a switch. AMOUNT is
 * a number with its unit: 80GiB, 25GB/s, 2us, 989TFLOP/s. A last word `nominal`, or two, `measured 2026-11-23`, give a number's
 * source; without them it is nominal.
 *
 *   machine TEXT                          devices N                       nodes N
 *   name DEVICES TEXT                     capability DEVICES 9.0          multiprocessors DEVICES N
 *   memory DEVICES AMOUNT                 bandwidth DEVICES AMOUNT        launch DEVICES AMOUNT        event DEVICES AMOUNT
 *   arithmetic DEVICES DTYPE AMOUNT       matrix DEVICES DTYPE AMOUNT     matmul DEVICES DTYPE AMOUNT
 *   switch NAME [adds]                    link END END (AMOUNT | none) [AMOUNT]
 *   host (cores N | memory AMOUNT | bandwidth AMOUNT | arithmetic DTYPE AMOUNT | matmul AMOUNT | barrier AMOUNT | step AMOUNT |
 *         meeting AMOUNT | idle-meeting AMOUNT | link AMOUNT | decode AMOUNT | disk AMOUNT)
 *
 * With `nodes` all other lines describe one node, and `network` is an end, too.
 *
 * Words that only virtual GPUs know (docs/vgpu.md) are skipped, so a file may describe both. */
#include "compiler/machine/machine.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 64 };

typedef struct Word {
    const char *text;
    int column;
} Word;
typedef struct MachineReader {
    Source source;
    Machine *machine;
    Word word[MOST_WORDS];
    int count, line;
    int measured; /* date of this line's numbers */
    bool counted; /* `devices` has been read */
} MachineReader;

static Place place_of(const MachineReader *r, int k)
{
    return (Place){.source = &r->source, .line = r->line, .column = r->word[k < r->count ? k : r->count - 1].column};
}

#define WRONG(reader, k, ...)                                                                                                    \
    do {                                                                                                                         \
        Place at_ = place_of(reader, k);                                                                                         \
        error_at(&at_, __VA_ARGS__);                                                                                             \
    } while (0)

static const char *word(const MachineReader *r, int k, const char *example)
{
    if (k >= r->count)
        WRONG(r, k, "this fact is not complete; an example of a whole one: %s", example);
    return r->word[k].text;
}

static bool is(const MachineReader *r, int k, const char *text) { return k < r->count && strcmp(r->word[k].text, text) == 0; }

static void end(const MachineReader *r, int count)
{
    if (r->count > count)
        WRONG(r, count, "'%s' is one word too many; a remark begins with #", r->word[count].text);
}

/* ---- numbers */
typedef enum FactUnit { UNIT_BYTES, UNIT_RATE, UNIT_TIME, UNIT_FLOPS, UNIT_EACH } FactUnit;
static const struct {
    const char *text, *example;
    double factor;
} UNITS[] = {
    [UNIT_BYTES] = {"B", "80GiB", 1},          [UNIT_RATE] = {"B/s", "25GB/s", 1}, [UNIT_TIME] = {"s", "2us", 1e6},
    [UNIT_FLOPS] = {"FLOP/s", "67TFLOP/s", 1}, [UNIT_EACH] = {"/s", "500/s", 1},
};

static Fact amount(const MachineReader *r, int k, FactUnit unit, const char *example)
{
    const char *text = word(r, k, example);
    char *at;
    double v = strtod(text, &at);
    double factor = at == text ? 0 : unit_factor(at, UNITS[unit].text);
    if (factor == 0)
        WRONG(r, k, "'%s' is not an amount with its unit, such as %s", text, UNITS[unit].example);
    v *= factor * UNITS[unit].factor;
    if (!(v > 0 && v < 1e30))
        WRONG(r, k, "'%s' is not an amount above 0; leave the line out if nobody knows it", text);
    return (Fact){v, r->measured};
}

static int whole(const MachineReader *r, int k, int least, int most, const char *example)
{
    const char *text = word(r, k, example);
    char *at;
    long v = strtol(text, &at, 10);
    if (at == text || *at || v < least || v > most)
        WRONG(r, k, "'%s' is not a whole number from %d to %d", text, least, most);
    return (int)v;
}

static Dtype dtype(const MachineReader *r, int k, const char *example)
{
    Dtype t;
    if (!dtype_by_name(word(r, k, example), &t) || t == BOOL)
        WRONG(r, k, "'%s' is not a type of numbers, such as f32, bf16 or f64", r->word[k].text);
    return t;
}

/* Returns 20261123 for 2026-11-23; 0: the text is not a date. */
static int day_of(const char *text)
{
    int year, month, day, length = -1;
    if (sscanf(text, "%4d-%2d-%2d%n", &year, &month, &day, &length) != 3 || length != 10 || text[length] || month < 1 ||
        month > 12 || day < 1 || day > 31 || year < 1900)
        return 0;
    return 10000 * year + 100 * month + day;
}

/* Reads the words at the end that give the source of the numbers. */
static void read_origin(MachineReader *r)
{
    r->measured = 0;
    if (r->count > 1 && is(r, r->count - 1, "nominal")) {
        r->count--;
    } else if (is(r, r->count - 1, "measured")) {
        WRONG(r, r->count - 1, "measured when? Write the day: measured 2026-11-23");
    } else if (r->count > 2 && is(r, r->count - 2, "measured")) {
        r->measured = day_of(r->word[r->count - 1].text);
        if (!r->measured)
            WRONG(r, r->count - 1, "'%s' is not a day, such as 2026-11-23", r->word[r->count - 1].text);
        r->count -= 2;
    }
}

/* ---- devices and ends */
static bool read_range(const char *text, int *first, int *last)
{
    int length = -1;
    if (!isdigit((unsigned char)*text) || strlen(text) > 16)
        return false;
    *last = -1;
    if (sscanf(text, "%9d-%9d%n", first, last, &length) == 2 && length == (int)strlen(text))
        return true;
    length = -1;
    if (sscanf(text, "%9d%n", first, &length) != 1 || length != (int)strlen(text))
        return false;
    *last = *first;
    return true;
}

static bool find_devices(const MachineReader *r, int k, const char *example, int *first, int *last)
{
    const char *text = word(r, k, example);
    if (strcmp(text, "*") == 0) {
        *first = 0;
        *last = r->machine->device_count - 1;
        return true;
    }
    if (!read_range(text, first, last))
        return false;
    if (!r->counted)
        WRONG(r, k, "how many devices there are comes before what they are: add a line such as 'devices 8'");
    if (*first > *last || *last >= r->machine->device_count)
        WRONG(r, k, "there is no device %s: the machine has %d, counted from 0", text, r->machine->device_count);
    return true;
}

static void devices_of(const MachineReader *r, int k, const char *example, int *first, int *last)
{
    if (!find_devices(r, k, example, first, last))
        WRONG(r, k, "'%s' is not a device: write a number, 0-3, or * for all", r->word[k].text);
}

static void end_of(const MachineReader *r, int k, const char *example, int *first, int *last)
{
    const Machine *m = r->machine;
    if (find_devices(r, k, example, first, last))
        return;
    const char *text = r->word[k].text;
    *first = *last = machine_host(m);
    if (strcmp(text, "host") == 0)
        return;
    for (int s = 0; s < m->switch_count; s++)
        if (strcmp(text, m->switches[s].name) == 0) {
            *first = *last = machine_host(m) + 1 + s;
            return;
        }
    if (strcmp(text, NETWORK) == 0)
        WRONG(r, k,
              "the network joins nodes, and the machine is one; say above how many there are, in a line such as 'nodes 16'");
    WRONG(r, k, "'%s' is not an end of a link: a device, host, or a switch that is named above ('switch %s')", text, text);
}

/* Returns the rest of the line as one text. */
static const char *rest(const MachineReader *r, int k, const char *example)
{
    Text t = {0};
    word(r, k, example);
    for (int i = k; i < r->count; i++)
        text_add(&t, "%s%s", i > k ? " " : "", r->word[i].text);
    return text_take(&t);
}

/* ---- facts */
static void read_machine(MachineReader *r) { r->machine->name = rest(r, 1, "machine DGX-1"); }

static void read_devices(MachineReader *r)
{
    Machine *m = r->machine;
    if (r->counted || m->switch_count || m->link_count)
        WRONG(r, 0, "'devices' is said once, before 'nodes' and all switches and links");
    m->device_count = whole(r, 1, 0, MOST_DEVICES, "devices 8");
    end(r, 2);
    m->devices = NEW_ARRAY(Device, m->device_count);
    for (int d = 0; d < m->device_count; d++)
        m->devices[d] = (Device){.name = "GPU", .processor = PROCESSOR_CUDA};
    r->counted = true;
}

static void read_nodes(MachineReader *r)
{
    Machine *m = r->machine;
    if (machine_network(m) >= 0)
        WRONG(r, 0, "'nodes' is said once");
    m->nodes = whole(r, 1, 2, MOST_NODES, "nodes 16");
    end(r, 2);
    APPEND(m->switches, m->switch_count, ((Switch){NETWORK, false}));
}

static void read_switch(MachineReader *r)
{
    static const char example[] = "switch nvswitch adds";
    Machine *m = r->machine;
    int first, last;
    const char *name = word(r, 1, example);
    bool adds = is(r, 2, "adds");
    end(r, 2 + adds);
    if (strcmp(name, "host") == 0 || strcmp(name, NETWORK) == 0 || strcmp(name, "*") == 0 || read_range(name, &first, &last))
        WRONG(r, 1, "a switch cannot be called %s, which is something else in a link; take a word", name);
    for (int s = 0; s < m->switch_count; s++)
        if (strcmp(m->switches[s].name, name) == 0)
            WRONG(r, 1, "there is a switch %s already; give this one another name", name);
    APPEND(m->switches, m->switch_count, ((Switch){name, adds}));
}

static void set_link(Machine *m, int from, int to, Fact rate, Fact latency)
{
    for (int i = 0; i < m->link_count; i++) {
        Link *l = &m->links[i];
        if (l->end[0] == from && l->end[1] == to)
            l->rate[0] = l->rate[1] = rate;
        else if (l->end[0] == to && l->end[1] == from)
            l->rate[1] = rate; /* the other direction of an earlier line */
        else
            continue;
        l->latency_us = latency.value > 0 ? latency : l->latency_us;
        return;
    }
    APPEND(m->links, m->link_count, ((Link){{from, to}, {rate, rate}, latency}));
}

static void read_link(MachineReader *r)
{
    static const char example[] = "link 0 1 25GB/s 2us";
    int first[2], last[2];
    Fact latency = {0};
    end_of(r, 1, example, &first[0], &last[0]);
    end_of(r, 2, example, &first[1], &last[1]);
    Fact rate = is(r, 3, "none") ? (Fact){0} : amount(r, 3, UNIT_RATE, example);
    if (r->count > 4)
        latency = amount(r, 4, UNIT_TIME, example);
    end(r, 5);
    bool same = first[0] == first[1] && last[0] == last[1];
    if (same && first[0] == last[0] && first[0] >= r->machine->device_count)
        WRONG(r, 2, "a link of %s to itself is none; name two ends", r->word[2].text);
    for (int a = first[0]; a <= last[0]; a++)
        for (int b = first[1]; b <= last[1]; b++)
            if (a != b && (!same || a < b))
                set_link(r->machine, a, b, rate, latency);
}

static void read_host(MachineReader *r)
{
    static const struct {
        const char *name;
        FactUnit unit;
        size_t at;
        const char *example;
    } PARTS[] = {
        {"memory", UNIT_BYTES, offsetof(Host, memory), "host memory 64GiB"},
        {"bandwidth", UNIT_RATE, offsetof(Host, bandwidth), "host bandwidth 200GB/s"},
        {"barrier", UNIT_TIME, offsetof(Host, barrier_us), "host barrier 2us"},
        {"step", UNIT_TIME, offsetof(Host, step_us), "host step 60us"},
        {"meeting", UNIT_TIME, offsetof(Host, synchronize_us), "host meeting 10us"},
        {"matmul", UNIT_FLOPS, offsetof(Host, matmul), "host matmul 60GFLOP/s"},
        {"idle-meeting", UNIT_TIME, offsetof(Host, idle_synchronize_us), "host idle-meeting 10us"},
        {"link", UNIT_RATE, offsetof(Host, link), "host link 1GB/s"},
        {"decode", UNIT_EACH, offsetof(Host, decode), "host decode 500/s"},
        {"disk", UNIT_RATE, offsetof(Host, disk), "host disk 2GB/s"},
    };
    Host *h = &r->machine->host;
    const char *what = word(r, 1, "host cores 16");
    if (strcmp(what, "cores") == 0) {
        h->cores = (Fact){whole(r, 2, 1, 1 << 20, "host cores 16"), r->measured};
        end(r, 3);
        return;
    }
    if (strcmp(what, "load") == 0) {
        h->load = (int)whole(r, 2, 0, 100, "host load 40");
        end(r, 3);
        return;
    }
    if (strcmp(what, "arithmetic") == 0) {
        static const char example[] = "host arithmetic f32 80GFLOP/s";
        Dtype t = dtype(r, 2, example);
        h->plain[t] = amount(r, 3, UNIT_FLOPS, example);
        end(r, 4);
        return;
    }
    for (int i = 0; i < COUNT(PARTS); i++)
        if (strcmp(what, PARTS[i].name) == 0) {
            *(Fact *)((char *)h + PARTS[i].at) = amount(r, 2, PARTS[i].unit, PARTS[i].example);
            end(r, 3);
            return;
        }
    const char *names[COUNT(PARTS) + 3] = {"cores", "arithmetic", "load"};
    for (int i = 0; i < COUNT(PARTS); i++)
        names[3 + i] = PARTS[i].name;
    WRONG(r, 1,
          "a host has no '%s'%s; it has cores, arithmetic, matmul, memory, bandwidth, barrier, step, meeting, idle-meeting, "
          "link, decode, disk and load",
          what, did_you_mean(what, names, COUNT(names)));
}

static void set_name(MachineReader *r, Device *d) { d->name = rest(r, 2, "name * NVIDIA H100"); }

static void set_capability(MachineReader *r, Device *d)
{
    int major, minor, length = -1;
    const char *text = word(r, 2, "capability * 9.0");
    if (strlen(text) > 5 || sscanf(text, "%2d.%1d%n", &major, &minor, &length) != 2 || text[length] || major < 1)
        WRONG(r, 2, "'%s' is not a compute capability, such as 9.0", text);
    d->capability = 10 * major + minor;
    end(r, 3);
}

static void set_units(MachineReader *r, Device *d)
{
    d->units = (Fact){whole(r, 2, 1, 1 << 20, "multiprocessors * 132"), r->measured};
    end(r, 3);
}

static void set_memory(MachineReader *r, Device *d)
{
    d->memory = amount(r, 2, UNIT_BYTES, "memory * 80GiB");
    end(r, 3);
}
static void set_bandwidth(MachineReader *r, Device *d)
{
    d->bandwidth = amount(r, 2, UNIT_RATE, "bandwidth * 3350GB/s");
    end(r, 3);
}
static void set_launch(MachineReader *r, Device *d)
{
    d->launch_us = amount(r, 2, UNIT_TIME, "launch * 2us");
    end(r, 3);
}
static void set_event(MachineReader *r, Device *d)
{
    d->event_us = amount(r, 2, UNIT_TIME, "event * 1us");
    end(r, 3);
}

static void set_arithmetic(MachineReader *r, Device *d)
{
    Dtype t = dtype(r, 2, "arithmetic * f32 67TFLOP/s");
    d->plain[t] = amount(r, 3, UNIT_FLOPS, "arithmetic * f32 67TFLOP/s");
    end(r, 4);
}

static void set_matrix(MachineReader *r, Device *d)
{
    Dtype t = dtype(r, 2, "matrix * bf16 989TFLOP/s");
    d->matrix[t] = amount(r, 3, UNIT_FLOPS, "matrix * bf16 989TFLOP/s");
    end(r, 4);
}

static void set_matmul(MachineReader *r, Device *d)
{
    Dtype t = dtype(r, 2, "matmul * bf16 600TFLOP/s");
    d->large[t] = amount(r, 3, UNIT_FLOPS, "matmul * bf16 600TFLOP/s");
    end(r, 4);
}

static const struct {
    const char *name;
    void (*read)(MachineReader *);
    void (*set)(MachineReader *, Device *);
} FACTS[] = {
    {"machine", read_machine, NULL},
    {"devices", read_devices, NULL},
    {"nodes", read_nodes, NULL},
    {"switch", read_switch, NULL},
    {"link", read_link, NULL},
    {"host", read_host, NULL},
    {"name", NULL, set_name},
    {"capability", NULL, set_capability},
    {"multiprocessors", NULL, set_units},
    {"memory", NULL, set_memory},
    {"bandwidth", NULL, set_bandwidth},
    {"launch", NULL, set_launch},
    {"event", NULL, set_event},
    {"arithmetic", NULL, set_arithmetic},
    {"matrix", NULL, set_matrix},
    {"matmul", NULL, set_matmul},
};
static const char *const VIRTUAL[] = {"bus",    "shared", "seed",     "order",    "delay", "driver", "epilogue",
                                      "biases", "ptx",    "nccl",     "patience", "truth", "fail",   "lost",
                                      "forget", "hang",   "deadline", "corrupt",  "turns"};

static void read_fact(MachineReader *r)
{
    const char *names[COUNT(FACTS)];
    for (int i = 0; i < COUNT(VIRTUAL); i++)
        if (is(r, 0, VIRTUAL[i]))
            return;
    if (!is(r, 0, "name") && !is(r, 0, "machine"))
        read_origin(r);
    for (int i = 0; i < COUNT(FACTS); i++) {
        int first, last;
        names[i] = FACTS[i].name;
        if (!is(r, 0, FACTS[i].name))
            continue;
        if (FACTS[i].read) {
            FACTS[i].read(r);
            return;
        }
        devices_of(r, 1, "memory * 80GiB", &first, &last);
        for (int d = first; d <= last; d++)
            FACTS[i].set(r, &r->machine->devices[d]);
        return;
    }
    WRONG(r, 0, "'%s' begins no fact of a machine%s; compiler/machine/read.c lists them", r->word[0].text,
          did_you_mean(r->word[0].text, names, COUNT(names)));
}

/* ---- lines */
static void split_line(MachineReader *r, const char *begin, const char *line_end)
{
    r->count = 0;
    for (const char *at = begin;;) {
        while (at < line_end && isspace((unsigned char)*at))
            at++;
        if (at == line_end || *at == '#')
            return;
        const char *first = at;
        while (at < line_end && !isspace((unsigned char)*at))
            at++;
        r->word[r->count++] = (Word){copy_text(first, (size_t)(at - first)), (int)(first - begin) + 1};
        if (r->count == MOST_WORDS)
            WRONG(r, r->count - 1, "a line has at most %d words", MOST_WORDS - 1);
    }
}

/* Checks that the facts exist that all times depend on. */
static void check_complete(const Machine *m, const char *file)
{
    for (int d = 0; d < m->device_count; d++) {
        const Device *x = &m->devices[d];
        const char *lacking = x->bandwidth.value <= 0    ? "bandwidth * 3350GB/s"
                              : x->plain[F32].value <= 0 ? "arithmetic * f32 67TFLOP/s"
                              : x->memory.value <= 0     ? "memory * 80GiB"
                                                         : NULL;
        if (lacking)
            fail(1, "%s: device %d lacks what its times or sizes are made of; add a line such as '%s'", file, d, lacking);
    }
    const Host *h = &m->host;
    const char *lacking = h->cores.value <= 0        ? "host cores 16"
                          : h->bandwidth.value <= 0  ? "host bandwidth 200GB/s"
                          : h->plain[F32].value <= 0 ? "host arithmetic f32 80GFLOP/s"
                                                     : NULL;
    if (lacking)
        fail(1, "%s: the host lacks what its times are made of; add a line such as '%s'", file, lacking);
}

/* Checks that a route leads to the network from each device, or from the host of a node without GPUs. */
static void check_network(const Machine *m, const char *file)
{
    Route r;
    for (int d = 0; machine_network(m) >= 0 && d < (m->device_count ? m->device_count : 1); d++)
        if (!find_route(m, d, machine_network(m), &r))
            fail(
                1,
                "%s: no link leads from %s to the network, so its nodes are not joined; add a line such as 'link * network 50GB/s 3us' (each GPU has its network "
                "card) or 'link host network 12.5GB/s 10us'",
                file, m->device_count ? format("device %d", d) : "the host");
}

Machine *machine_read(const char *file, const char *text, size_t length)
{
    MachineReader r = {.source = {.file = file, .text = text, .length = length}, .machine = NEW(Machine)};
    r.machine->name = file;
    r.machine->nodes = 1;
    for (const char *at = text, *stop = text + length; at < stop; at++) {
        const char *line_end = memchr(at, '\n', (size_t)(stop - at));
        line_end = line_end ? line_end : stop;
        r.line++;
        split_line(&r, at, line_end);
        if (r.count)
            read_fact(&r);
        at = line_end;
    }
    check_complete(r.machine, file);
    check_network(r.machine, file);
    r.machine->classes = machine_classes(r.machine);
    return r.machine;
}
