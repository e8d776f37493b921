/* read.c: the text of a schedule -> one phase of it, as views need it. It reads what schedule_write writes (compiler/plan/schedule_text.c
 * is the reference), skips records and words that it does not know, and takes the comments that say what is predicted and why. */
#include "runtime/base/terminal.h"
#include "runtime/view/view.h"

#include <stdlib.h>
#include <string.h>

const char *const mgpu_view_lane[VIEW_LANES] = MGPU_LANE_NAMES;
const char *const mgpu_view_cause[VIEW_CAUSES] = {"computation", "upload", "communication", "input", "other devices", "nothing to do"};

typedef struct Words { View *view; const char *at; } Words;

/* ---- characters -> words */
static void *more(void *list, int count, size_t bytes) /* room for one more, which is zeroed */
{
    if ((count & (count - 1)) == 0)
        list = mgpu_resize(list, (size_t)(count ? 2 * count : 1) * bytes);
    memset((char *)list + (size_t)count * bytes, 0, bytes);
    return list;
}

static bool bare(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("._-/", c)); }

static void skip_blanks(Words *w)
{
    while (*w->at == ' ' || *w->at == '\t' || *w->at == '\r')
        w->at++;
}

static bool at_end(Words *w)
{
    skip_blanks(w);
    return !*w->at || *w->at == '\n' || *w->at == '#';
}

static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0; }

/* names, accesses and reasons are parts of the text, so it is a strange one that needs more */
static void need(const Words *w, size_t length)
{
    if (length >= (size_t)(w->view->end - w->view->free))
        mgpu_fail(MGPU_BAD_INPUT, "a record of the schedule repeats itself too often to be shown; --full prints it");
}

static const char *add(Words *w, const char *from, size_t length)
{
    need(w, length);
    char *text = w->view->free;
    memcpy(text, from, length);
    text[length] = 0;
    w->view->free += length + 1;
    return text;
}

/* bare, or in quotes */
static const char *name(Words *w)
{
    skip_blanks(w);
    if (*w->at != '"') {
        const char *begin = w->at;
        while (bare(*w->at))
            w->at++;
        return add(w, begin, (size_t)(w->at - begin));
    }
    need(w, strcspn(w->at, "\n"));
    char *text = w->view->free, *to = text;
    bool coded = false;
    for (w->at++; *w->at && *w->at != '"' && *w->at != '\n'; w->at++) {
        if (*w->at != '\\') {
            *to++ = *w->at;
        } else if (w->at[1] == 'x' && w->at[2] && w->at[3]) {
            *to++ = (char)(16 * hex(w->at[2]) + hex(w->at[3]));
            coded = true;
            w->at += 3;
        } else if (w->at[1]) {
            *to++ = *++w->at;
        }
    }
    w->at += *w->at == '"';
    *to++ = 0;
    if (!coded) {
        w->view->free = to;
        return text;
    }
    char *plain = mgpu_plain_text(text, false); /* as a terminal may have it */
    if (!plain)
        mgpu_no_memory((size_t)(to - text));
    const char *kept = add(w, plain, strlen(plain));
    free(plain);
    return kept;
}

static bool take(Words *w, const char *word)
{
    skip_blanks(w);
    size_t length = strlen(word);
    if (strncmp(w->at, word, length) != 0 || bare(w->at[length]))
        return false;
    w->at += length;
    return true;
}

static double number(Words *w)
{
    char *end;
    if (at_end(w))
        return 0;
    double n = strtod(w->at, &end);
    w->at = end;
    return n;
}

/* what a comment says may be any number */
static int64_t whole(double n)
{
    const double MOST = 1e15;
    return n >= -MOST ? (int64_t)(n < MOST ? n : MOST) : -1;
}

static int small(double n) { return n >= -INT32_MAX && n <= INT32_MAX ? (int)n : -1; }

static void skip_word(Words *w)
{
    skip_blanks(w);
    bool quoted = false;
    for (; *w->at && *w->at != '\n' && (quoted || !strchr(" \t\r", *w->at)); w->at++) {
        quoted ^= *w->at == '"';
        w->at += quoted && *w->at == '\\' && w->at[1] && w->at[1] != '\n';
    }
}

static double value_after(Words w, const char *word) /* in the rest of the record; -1: it is not there */
{
    while (!at_end(&w)) {
        if (take(&w, word))
            return number(&w);
        skip_word(&w);
    }
    return -1;
}

/* dN. -> N */
static int owner(Words *w)
{
    skip_blanks(w);
    if (*w->at != 'd' || w->at[1] < '0' || w->at[1] > '9')
        return -1;
    char *end;
    long device = strtol(w->at + 1, &end, 10);
    if (*end != '.' || device >= w->view->device_count)
        return -1;
    w->at = end + 1;
    return (int)device;
}

static bool at_owned(const Words *w)
{
    const char *at = w->at;
    while (*at == ' ')
        at++;
    return at[0] == 'd' && at[1] >= '0' && at[1] <= '9' && strspn(at + 1, "0123456789") > 0 && at[1 + strspn(at + 1, "0123456789")] == '.';
}

/* ---- names -> numbers */
static unsigned hash(const char *text)
{
    unsigned h = 2166136261u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

typedef const char *NameOf(const ViewDevice *, int);
static const char *buffer_name(const ViewDevice *d, int i) { return d->buffers[i].name; }
static const char *op_name(const ViewDevice *d, int i) { return d->ops[i].name; }

static int find(const ViewDevice *d, const int *slots, int count, NameOf *of, const char *text)
{
    for (unsigned h = hash(text); count; h++) {
        int i = slots[h & (unsigned)(count - 1)];
        if (!i || strcmp(of(d, i - 1), text) == 0)
            return i - 1;
    }
    return -1;
}

static void put(const ViewDevice *d, int **slots, int *count, int used, NameOf *of)
{
    int from = used - 1;
    if (2 * used > *count) {
        free(*slots);
        *count = *count ? 2 * *count : 64;
        *slots = mgpu_allocate((size_t)*count, sizeof **slots);
        from = 0;
    }
    for (int i = from; i < used; i++) {
        unsigned h = hash(of(d, i));
        while ((*slots)[h & (unsigned)(*count - 1)])
            h++;
        (*slots)[h & (unsigned)(*count - 1)] = i + 1;
    }
}

int mgpu_view_find_op(const ViewDevice *d, const char *text) { return find(d, d->op_slots, d->op_slot_count, op_name, text); }

int mgpu_view_find_buffer(const ViewDevice *d, const char *text) { return find(d, d->slots, d->slot_count, buffer_name, text); }

/* ---- comments of the head */
static void read_prediction(Words *w)
{
    View *v = w->view;
    if (take(w, "predicted")) {
        v->step_us = value_after(*w, "step_us");
        for (; !at_end(w); skip_word(w)) {
            if (take(w, "machine"))
                v->machine = name(w);
            if (take(w, "bound"))
                v->bound = name(w);
        }
    } else if (take(w, "roofs")) {
        v->bandwidth = value_after(*w, "bandwidth");
        v->plain = value_after(*w, "plain");
        v->matrix = value_after(*w, "matrix");
    } else if (take(w, "lane") && take(w, "devices")) {
        int first = small(number(w)), last = small(number(w));
        if (!v->use_count || v->uses[v->use_count - 1].first != first) {
            v->uses = more(v->uses, v->use_count, sizeof *v->uses);
            v->uses[v->use_count++] = (ViewUses){.first = first, .last = last};
        }
        const char *lane = name(w);
        for (int l = 0; l < VIEW_LANES; l++) {
            if (strcmp(lane, mgpu_view_lane[l]) != 0)
                continue;
            ViewUse *use = &v->uses[v->use_count - 1].lanes[l];
            use->known = true;
            use->busy_us = value_after(*w, "busy_us");
            take(w, "busy_us");
            number(w);
            take(w, "idle_us");
            for (int c = 0; c < VIEW_CAUSES; c++)
                use->idle_us[c] = number(w);
        }
    } else if (take(w, "link")) {
        v->links = more(v->links, v->link_count, sizeof *v->links);
        ViewLink *l = &v->links[v->link_count++];
        l->name = name(w);
        l->bytes = value_after(*w, "bytes");
        l->share = value_after(*w, "share");
    } else if (take(w, "transfers")) {
        v->besides = whole(value_after(*w, "bytes"));
    }
}

/* ---- records */
static void read_device(Words *w)
{
    View *v = w->view;
    int d = small(number(w));
    if (d < 0 || d >= v->device_count)
        return;
    ViewDevice *x = &v->devices[d];
    take(w, "name");
    x->name = name(w);
    x->arena = whole(value_after(*w, "arena"));
    x->work = whole(value_after(*w, "work"));
    x->staging = whole(value_after(*w, "staging"));
    x->first = whole(value_after(*w, "samples"));
    int as = small(value_after(*w, "as"));
    x->as = as >= 0 && as < d ? v->devices[as].as : d;
    const char *range = strstr(w->at, "..");
    x->end = range ? strtoll(range + 2, NULL, 10) : x->first;
}

static void read_buffer(Words *w)
{
    int device = owner(w);
    if (device < 0)
        return;
    ViewDevice *d = &w->view->devices[device];
    d->buffers = more(d->buffers, d->buffer_count, sizeof *d->buffers);
    ViewBuffer *b = &d->buffers[d->buffer_count++];
    b->name = name(w);
    take(w, "kind");
    b->kind = name(w);
    double slots = value_after(*w, "slots");
    b->offset = whole(value_after(*w, "offset"));
    b->slots = slots > 1 ? small(slots) : 1;
    b->bytes = whole(value_after(*w, "bytes") * (slots > 1 ? slots : 1));
    b->first = b->last = -1;
    put(d, &d->slots, &d->slot_count, d->buffer_count, buffer_name);
}

/* "[BEGIN:END", else the whole of a slot */
static int64_t bytes_of_access(const char *range, const ViewBuffer *b)
{
    char *end;
    if (*range != '[')
        return b && b->slots > 0 ? b->bytes / b->slots : 0;
    double begin = strtod(range + 1, &end);
    return whole(*end == ':' ? strtod(end + 1, NULL) - begin : 0);
}

static void read_accesses(Words *w, ViewDevice *d, ViewOp *op)
{
    while (at_owned(w)) {
        skip_blanks(w);
        const char *begin = strchr(w->at, '.') + 1;
        owner(w);
        const char *buffer = name(w), *end = w->at, *after_name = end;
        while (*end && !strchr(" \t\r\n", *end))
            end++;
        w->at = end;
        int number_of = find(d, d->slots, d->slot_count, buffer_name, buffer), count = op->access_count;
        op->buffers = more(op->buffers, count, sizeof *op->buffers);
        op->accesses = more(op->accesses, op->access_count, sizeof *op->accesses);
        op->ranges = more(op->ranges, count, sizeof *op->ranges);
        op->buffers[count] = number_of;
        op->ranges[count] = bytes_of_access(after_name, number_of < 0 ? NULL : &d->buffers[number_of]);
        op->accesses[op->access_count++] = add(w, begin, (size_t)(end - begin));
        if (number_of < 0)
            continue;
        ViewBuffer *b = &d->buffers[number_of];
        b->first = b->first < 0 ? d->op_count : b->first;
        b->last = d->op_count;
    }
}

/* of what comes after #: "upload makes in.image; read makes stage.image" */
static const char *reason_of(Words *w, const char *comment, const char *op)
{
    const char *line_end = comment + strcspn(comment, "\n");
    for (const char *at = comment; at < line_end;) {
        const char *end = at;
        while (end < line_end && strncmp(end, "; ", 2) != 0)
            end++;
        size_t length = strlen(op);
        if ((size_t)(end - at) > length && strncmp(at, op, length) == 0 && at[length] == ' ')
            return add(w, at + length + 1, (size_t)(end - at) - length - 1);
        at = end < line_end ? end + 2 : end;
    }
    return NULL;
}

/* waits name operations that may come later (of the step before): they are looked up at the end of the phase */
static void read_waits(Words *w, ViewOp *op)
{
    while (at_owned(w)) {
        owner(w);
        op->waits = more(op->waits, op->wait_count, sizeof *op->waits);
        ViewWait *x = &op->waits[op->wait_count++];
        x->why = name(w);
        if (strncmp(w->at, "@-", 2) == 0) {
            w->at += 2;
            x->back = small(number(w));
        }
    }
}

static void read_op(Words *w)
{
    int device = owner(w);
    if (device < 0)
        return;
    ViewDevice *d = &w->view->devices[device];
    d->ops = more(d->ops, d->op_count, sizeof *d->ops);
    ViewOp *op = &d->ops[d->op_count];
    op->layer = op->role = "";
    op->name = name(w);
    take(w, "lane");
    const char *lane = name(w);
    for (int l = 0; l < VIEW_LANES; l++)
        if (strcmp(lane, mgpu_view_lane[l]) == 0)
            op->lane = (ViewLane)l;
    op->verb = name(w);
    op->label = name(w);
    while (!at_end(w)) {
        if (take(w, "reads")) {
            read_accesses(w, d, op);
            op->read_count = op->access_count;
        } else if (take(w, "writes")) {
            read_accesses(w, d, op);
        } else if (take(w, "waits")) {
            read_waits(w, op);
        } else if (take(w, "begin_us")) {
            op->begin_us = number(w);
        } else if (take(w, "time_us")) {
            op->time_us = number(w);
        } else if (take(w, "line")) {
            op->line = small(number(w));
        } else if (take(w, "layer")) {
            op->layer = name(w);
        } else if (take(w, "role")) {
            op->role = name(w);
        } else if (take(w, "flops")) {
            op->flops = number(w);
        } else if (take(w, "bytes")) {
            op->bytes = number(w);
        } else {
            skip_word(w);
        }
    }
    const char *comment = *w->at == '#' ? w->at + 2 : "";
    for (int i = 0; i < op->wait_count; i++) { /* the operation's number comes later */
        const char *before = op->waits[i].why;
        op->waits[i].why = reason_of(w, comment, before);
        op->waits[i].op = -1;
        d->ops[d->op_count].accesses = more(d->ops[d->op_count].accesses, op->access_count + i, sizeof *op->accesses);
        op->accesses[op->access_count + i] = before;
    }
    d->op_count++;
    put(d, &d->op_slots, &d->op_slot_count, d->op_count, op_name);
    if (op->begin_us + op->time_us > w->view->end_us)
        w->view->end_us = op->begin_us + op->time_us;
}

static void read_collective(Words *w)
{
    View *v = w->view;
    v->collectives = more(v->collectives, v->collective_count, sizeof *v->collectives);
    ViewCollective *c = &v->collectives[v->collective_count++];
    c->name = name(w);
    c->kind = c->way = c->why = "";
    while (!at_end(w)) {
        if (take(w, "kind")) {
            c->kind = name(w);
        } else if (take(w, "bytes")) {
            c->bytes = whole(number(w));
        } else if (take(w, "via")) {
            c->way = name(w);
        } else if (take(w, "why")) {
            c->why = name(w);
        } else if (take(w, "of")) {
            while (!at_end(w)) {
                c->of = more(c->of, c->of_count, sizeof *c->of);
                c->of[c->of_count++] = name(w);
            }
        } else {
            skip_word(w);
        }
    }
}

/* devices that are as another one show its lists */
static void share_records(View *v)
{
    for (int d = 0; d < v->device_count; d++) {
        ViewDevice *x = &v->devices[d];
        const ViewDevice *of = &v->devices[x->as];
        x->buffers = of->buffers;
        x->buffer_count = of->buffer_count;
        x->ops = of->ops;
        x->op_count = of->op_count;
        x->slots = of->slots;
        x->slot_count = of->slot_count;
        x->op_slots = of->op_slots;
        x->op_slot_count = of->op_slot_count;
    }
}

static void end_phase(View *v)
{
    for (int d = 0; d < v->device_count; d++)
        for (int i = 0; i < v->devices[d].op_count; i++) {
            ViewOp *op = &v->devices[d].ops[i];
            for (int k = 0; k < op->wait_count; k++)
                op->waits[k].op = mgpu_view_find_op(&v->devices[d], op->accesses[op->access_count + k]);
        }
}

/* ---- all of it */
static const char *next_line(const char *at)
{
    at += strcspn(at, "\n");
    return *at ? at + 1 : at;
}

static const char *read_extent(Words *w)
{
    for (; !at_end(w); skip_word(w))
        if (take(w, "extent"))
            return name(w);
    return "";
}

static void read_head(Words *w, const char *text)
{
    View *v = w->view;
    for (const char *at = text; *at; at = next_line(at)) {
        w->at = at;
        if (*at == '#') {
            w->at++;
            read_prediction(w);
        } else if (take(w, "model")) {
            v->model = name(w);
            take(w, "precision");
            v->precision = name(w);
            v->batch = whole(value_after(*w, "batch"));
            v->accumulate = small(value_after(*w, "accumulate"));
            v->device_count = small(value_after(*w, "devices"));
            v->nodes = small(value_after(*w, "nodes"));
            v->predicts = value_after(*w, "predicts") >= 0;
        } else if (take(w, "plan")) {
            for (v->plan = name(w); !at_end(w); skip_word(w))
                if (take(w, "label"))
                    v->label = name(w);
        } else if (take(w, "kernel")) {
            v->kernels = more(v->kernels, v->kernel_count, sizeof *v->kernels);
            v->extents = more(v->extents, v->kernel_count, sizeof *v->extents);
            v->kernels[v->kernel_count] = name(w);
            v->extents[v->kernel_count++] = read_extent(w);
        } else if (take(w, "phase")) {
            v->phases = more(v->phases, v->phase_count, sizeof *v->phases);
            v->phases[v->phase_count++] = name(w);
        }
    }
}

static const char *const USUAL[2][2] = {{"train.full", "train.partial"}, {"predict.full", "predict.partial"}};

bool mgpu_view_is_step(const View *v, bool partial)
{
    return strcmp(v->phase, USUAL[v->predicts][0]) == 0 || (partial && strcmp(v->phase, USUAL[v->predicts][1]) == 0);
}

static void choose_phase(View *v, const char *phase)
{
    char near[128];
    for (int i = 0; i < 2 && !v->phase; i++)
        for (int k = 0; k < v->phase_count && !v->phase; k++)
            if (strcmp(v->phases[k], phase ? phase : USUAL[v->predicts][i]) == 0)
                v->phase = v->phases[k];
    if (!v->phase && phase)
        mgpu_fail(MGPU_BAD_USAGE, "--phase %s: the schedule has no such phase%s", phase, mgpu_near_miss(phase, v->phases, v->phase_count, near));
    if (!v->phase && !v->phase_count)
        mgpu_fail(MGPU_BAD_INPUT, "the schedule has no phase");
    v->phase = v->phase ? v->phase : v->phases[0];
}

View *mgpu_view_read(const char *original, const char *phase)
{
    static const struct { const char *word; void (*read)(Words *); } RECORDS[] = {
        {"device", read_device}, {"buffer", read_buffer}, {"op", read_op}, {"collective", read_collective}};
    View *v = mgpu_allocate(1, sizeof *v);
    Words w = {.view = v};
    char *text = mgpu_plain_text(original, true);
    if (!text)
        mgpu_no_memory(strlen(original));
    size_t room = 4 * strlen(text) + 64;
    v->pool = v->free = mgpu_allocate(room, 1);
    v->end = v->pool + room;
    v->model = v->precision = "";
    read_head(&w, text);
    choose_phase(v, phase);
    v->devices = mgpu_allocate((size_t)v->device_count + 1, sizeof *v->devices);
    for (int d = 0; d < v->device_count; d++)
        v->devices[d] = (ViewDevice){.name = "", .as = d};
    bool here = false;
    for (const char *at = text; *at; at = next_line(at)) {
        w.at = at;
        if (take(&w, "phase"))
            here = strcmp(name(&w), v->phase) == 0;
        for (int r = 0; r < MGPU_COUNT(RECORDS) && here; r++)
            if (take(&w, RECORDS[r].word)) {
                RECORDS[r].read(&w);
                break;
            }
    }
    end_phase(v);
    share_records(v);
    free(text);
    return v;
}

void mgpu_view_free(View *v)
{
    for (int d = 0; d < v->device_count; d++) {
        ViewDevice *x = &v->devices[d];
        for (int i = 0; i < x->op_count && x->as == d; i++) {
            free(x->ops[i].accesses);
            free(x->ops[i].buffers);
            free(x->ops[i].ranges);
            free(x->ops[i].waits);
        }
        if (x->as != d)
            continue;
        free(x->buffers);
        free(x->ops);
        free(x->slots);
        free(x->op_slots);
    }
    for (int i = 0; i < v->collective_count; i++)
        free(v->collectives[i].of);
    free(v->phases);
    free(v->kernels);
    free(v->extents);
    free(v->uses);
    free(v->links);
    free(v->devices);
    free(v->collectives);
    free(v->pool);
    free(v);
}

const ViewUses *mgpu_view_uses(const View *v, int device)
{
    for (int i = 0; i < v->use_count; i++)
        if (v->uses[i].first <= device && device <= v->uses[i].last)
            return &v->uses[i];
    return NULL;
}

bool mgpu_view_has_layer(const char *text, const char *layer)
{
    size_t length = strlen(layer);
    return strncmp(text, layer, length) == 0 && (!text[length] || text[length] == '.');
}

const ViewCollective *mgpu_view_find_collective(const View *v, const char *text)
{
    for (int i = 0; i < v->collective_count; i++)
        if (strcmp(v->collectives[i].name, text) == 0)
            return &v->collectives[i];
    return NULL;
}

double mgpu_view_op_bytes(const ViewOp *op)
{
    double bytes = op->bytes;
    int first = op->read_count < op->access_count ? op->read_count : 0; /* report, fetch write nothing */
    for (int i = first; strcmp(op->verb, "call") != 0 && i < op->access_count; i++)
        bytes += (double)op->ranges[i];
    return bytes;
}

double mgpu_view_memory(const View *v, int device) { return (double)v->devices[device].arena + (double)v->besides; }

bool mgpu_view_stays(const ViewBuffer *b)
{
    static const char *const KINDS[] = {"variable", "input", "step", "report", "output"};
    for (int i = 0; i < MGPU_COUNT(KINDS); i++)
        if (strcmp(b->kind, KINDS[i]) == 0)
            return true;
    return false;
}
