/* trace.c: writes slices, arrows and tracks in Chrome's trace event format ("Trace Event Format", Google, 2016; JSON object
 * form).
 *
 * A process is a device, or the program itself; a thread is one of its tracks. A slice is a complete event (ph X), an arrow a
 * pair of flow events (ph s and f) whose times are inside the slices that they connect. Times are microseconds with three
 * decimals. */
#include "runtime/base/base.h"
#include "runtime/base/trace.h"

#include <string.h>

enum { FIRST_PROCESS = 1, TRACKS_OF_PROCESS = 1000 };

static int process_of(int device) { return FIRST_PROCESS + device + 1; }
static int thread_of(int device, int track) { return process_of(device) * TRACKS_OF_PROCESS + track; }

int mgpu_trace_lane_track(int lane)
{
    static const int TRACK[MGPU_LANES] = {[MGPU_COMP] = TRACK_COMP,
                                          [MGPU_COPY] = TRACK_COPY,
                                          [MGPU_COMM] = TRACK_COMM,
                                          [MGPU_SYNC] = TRACK_SYNC,
                                          [MGPU_HOST] = TRACK_HOST};
    return TRACK[lane];
}

static void name_of_track(int device, int track, char name[32])
{
    static const char *const LANE[TRACK_LANES] = {"host", "copy", "comp", "comm", "sync"}, *const OWN[] = {"steps", "loop",
                                                                                                           "saves"};
    if (device >= 0 ? track < TRACK_LANES : track < MGPU_COUNT(OWN))
        snprintf(name, 32, "%s", device >= 0 ? LANE[track] : OWN[track]);
    else
        snprintf(name, 32, "%s %d", device >= 0 ? "comp worker" : "decoder",
                 track - (device >= 0 ? TRACK_WORKERS : TRACK_DECODERS));
}

/* each: devices of a node; 0: one node */
static void write_process(FILE *f, int device, int each)
{
    fprintf(f, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":", process_of(device));
    if (device >= 0 && each)
        fprintf(f, "\"node %d, device %d\"", device / each, device);
    else if (device >= 0)
        fprintf(f, "\"device %d\"", device);
    else
        fputs("\"program\"", f);
    fprintf(f, "}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%d}}", process_of(device),
            process_of(device));
}

static void write_member(FILE *f, const char *key, const char *text)
{
    fprintf(f, ",\"%s\":", key);
    mgpu_json_write_text(f, text);
}

void mgpu_trace_begin(FILE *f, const TraceHead *h)
{
    fprintf(f, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"trace\":1,\"made\":\"%s\",\"version\":\"%s\"", h->made,
            MGPU_VERSION);
    write_member(f, "model", h->model);
    write_member(f, "file", h->file);
    write_member(f, "kind", h->kind);
    if (h->machine)
        write_member(f, "machine", h->machine);
    if (h->plan)
        write_member(f, "plan", h->plan);
    if (h->plan_label)
        write_member(f, "plan_label", h->plan_label);
    fprintf(f, ",\"devices\":%d,\"batch\":%lld", h->devices, (long long)h->batch);
    if (h->step_us > 0)
        fprintf(f, ",\"step_us\":%.3f", h->step_us);
    fputs("},\"traceEvents\":[\n", f);
    write_process(f, TRACE_PROGRAM, 0);
    for (int d = 0; d < h->devices; d++) {
        fputs(",\n", f);
        write_process(f, d, h->nodes > 1 ? h->devices / h->nodes : 0);
    }
}

void mgpu_trace_track(FILE *f, int device, int track)
{
    char name[32];
    name_of_track(device, track, name);
    fprintf(f, ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", process_of(device),
            thread_of(device, track), name);
    fprintf(f, ",\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%d,\"tid\":%d,\"args\":{\"sort_index\":%d}}",
            process_of(device), thread_of(device, track), track);
}

void mgpu_trace_slice(FILE *f, const TraceSlice *s)
{
    const char *before = "";
    fputs(",\n{\"ph\":\"X\",\"name\":", f);
    mgpu_json_write_text(f, s->name);
    fprintf(f, ",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{", s->category, process_of(s->device),
            thread_of(s->device, s->track), s->begin_us, s->end_us - s->begin_us);
    const struct {
        const char *key, *text;
    } TEXTS[] = {{"op", s->op}, {"kernel", s->kernel}, {"phase", s->phase}, {"layer", s->layer}, {"role", s->role}};
    const struct {
        const char *key;
        double number;
    } NUMBERS[] = {{"line", s->line}, {"step", (double)s->step}, {"bytes", s->bytes}, {"flops", s->flops}};
    for (int i = 0; i < MGPU_COUNT(TEXTS); i++)
        if (TEXTS[i].text && *TEXTS[i].text) {
            fprintf(f, "%s\"%s\":", before, TEXTS[i].key);
            mgpu_json_write_text(f, TEXTS[i].text);
            before = ",";
        }
    for (int i = 0; i < MGPU_COUNT(NUMBERS); i++)
        if (NUMBERS[i].number > 0) {
            fprintf(f, "%s\"%s\":%.0f", before, NUMBERS[i].key, NUMBERS[i].number);
            before = ",";
        }
    fputs("}}", f);
}

static void write_end_of_arrow(FILE *f, int64_t number, const TracePoint *p, const char *which)
{
    fprintf(f, ",\n{\"ph\":%s,\"name\":\"waits\",\"cat\":\"waits\",\"id\":%lld,\"pid\":%d,\"tid\":%d,\"ts\":%.3f}", which,
            (long long)number, process_of(p->device), thread_of(p->device, p->track), p->us);
}

void mgpu_trace_arrow(FILE *f, int64_t number, const TracePoint *from, const TracePoint *to)
{
    write_end_of_arrow(f, number, from, "\"s\"");
    write_end_of_arrow(f, number, to, "\"f\",\"bp\":\"e\"");
}

void mgpu_trace_end(FILE *f) { fputs("\n]}\n", f); }
