/* schedule_text.c: schedules as the compiler reads and writes them; their text and image are those of runtime/schedule/. */
#include "compiler/base/records.h"
#include "compiler/plan/schedule.h"

void schedule_write(const Schedule *s, Text *t) { mgpu_schedule_write(s, &(mgpu_writer){text_put, t}); }

const uint64_t *schedule_pack(const Schedule *s)
{
    mgpu_reader memory = text_reader(&(Source){.file = s->model, .text = ""});
    return mgpu_schedule_pack(&memory, s);
}

const uint64_t *schedule_pack_bytes(const void *body, size_t bytes)
{
    mgpu_reader memory = text_reader(&(Source){.file = "", .text = ""});
    return mgpu_image_of(&memory, body, bytes);
}

static _Noreturn void refuse_image(const mgpu_reader *r, const char *message)
{
    fail(1, "%s: %s", plain_text(((const Source *)r->memory)->file, false), message);
}

Schedule *schedule_unpack(const char *file, const uint64_t *image)
{
    mgpu_reader r = text_reader(&(Source){.file = file, .text = ""});
    r.wrong = refuse_image;
    return mgpu_schedule_unpack(&r, image);
}

static void *copy_of(const void *list, int count, size_t bytes)
{
    return count ? memcpy(allocate((size_t)count * bytes), list, (size_t)count * bytes) : NULL;
}

/* Copies the records, so that no two devices share memory. */
static void copy_records(DeviceSchedule *to, const DeviceSchedule *from)
{
    to->buffer_count = from->buffer_count;
    to->buffers = copy_of(from->buffers, from->buffer_count, sizeof *from->buffers);
    to->op_count = from->op_count;
    to->ops = copy_of(from->ops, from->op_count, sizeof *from->ops);
    for (int i = 0; i < to->op_count; i++) {
        ScheduledOp *op = &to->ops[i];
        op->reads = copy_of(op->reads, op->read_count, sizeof *op->reads);
        op->writes = copy_of(op->writes, op->write_count, sizeof *op->writes);
        op->waits = copy_of(op->waits, op->wait_count, sizeof *op->waits);
    }
}

static Schedule *read_one(mgpu_reader *r)
{
    Schedule *s = mgpu_schedule_read(r);
    for (int i = 0; i < s->phase_count; i++)
        for (int d = 0; d < s->devices; d++) {
            DeviceSchedule *all = s->phases[i].devices;
            if (all[d].as != d)
                copy_records(&all[d], &all[all[d].as]);
        }
    return s;
}

Schedule *schedule_read(const char *file, const char *text)
{
    Source *source = NEW(Source);
    *source = (Source){.file = file, .text = text, .length = strlen(text)};
    mgpu_reader r = text_reader(source);
    return read_one(&r);
}

Schedule **schedules_read(const Source *source, int *count)
{
    mgpu_reader r = text_reader((Source *)(uintptr_t)source);
    Schedule **list = NULL;
    *count = 0;
    do
        APPEND(list, *count, read_one(&r));
    while (mgpu_next_record(&r));
    return list;
}
