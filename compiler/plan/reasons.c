/* reasons.c: why an operation of a schedule waits for another one: which bytes both touch, of which one of them writes some.
 *
 * In the order in which they are looked for: it makes what the other reads; it has read, or written, what the other writes; it has used
 * memory that the other uses for something else. Slots count: the step before may have used the same one. */
#include "compiler/base/words.h"
#include "compiler/plan/schedule.h"

typedef enum Reason { MAKES, HAS_READ, HAS_WRITTEN, HAS_USED, REASONS } Reason;
enum { SHOWN = 3 };

static int64_t address_of(const DeviceSchedule *d, const Access *a, int step)
{
    const Buffer *b = &d->buffers[a->buffer];
    int64_t slot = (((int64_t)step + a->slot) % b->slots + b->slots) % b->slots, pitch = (b->bytes + 63) / 64 * 64;
    return b->offset + slot * pitch + a->begin;
}

static bool meet(const DeviceSchedule *d, const Access *a, const Access *earlier, int back)
{
    const Buffer *x = &d->buffers[a->buffer], *y = &d->buffers[earlier->buffer];
    if ((x->kind == BUFFER_STAGING) != (y->kind == BUFFER_STAGING))
        return false;
    int64_t begin = address_of(d, a, back), other = address_of(d, earlier, 0);
    return begin < other + earlier->end - earlier->begin && other < begin + a->end - a->begin;
}

/* the names of what is found, each once */
typedef struct Names { const char *name[SHOWN]; int count; } Names;

static void add(Names *list, const char *name)
{
    for (int i = 0; i < list->count && i < SHOWN; i++)
        if (strcmp(list->name[i], name) == 0)
            return;
    if (list->count < SHOWN)
        list->name[list->count] = name;
    list->count++;
}

static void look(const DeviceSchedule *d, const ScheduledOp *op, const ScheduledOp *before, int back, Names found[REASONS])
{
    for (int i = 0; i < op->read_count + op->write_count; i++) {
        bool writes = i >= op->read_count;
        const Access *a = writes ? &op->writes[i - op->read_count] : &op->reads[i];
        for (int k = 0; k < before->read_count + before->write_count; k++) {
            bool wrote = k >= before->read_count;
            const Access *earlier = wrote ? &before->writes[k - before->read_count] : &before->reads[k];
            if ((!writes && !wrote) || !meet(d, a, earlier, back))
                continue;
            Reason why = a->buffer != earlier->buffer ? HAS_USED : !writes ? MAKES : wrote ? HAS_WRITTEN : HAS_READ;
            add(&found[why], d->buffers[why == HAS_USED ? earlier->buffer : a->buffer].name);
        }
    }
}

static void add_name(int number, const char *name, Text *t)
{
    text_add(t, "%s", number ? ", " : "");
    if (is_bare_word(name))
        text_add(t, "%s", name);
    else
        write_quoted(name, t);
}

const char *wait_reason(const DeviceSchedule *d, const ScheduledOp *op, const Wait *w)
{
    static const char *const WORDS[REASONS] = {"makes", "has read", "has written", "has used the memory of"};
    Names found[REASONS] = {0};
    look(d, op, &d->ops[w->op], w->back, found);
    for (int why = 0; why < REASONS; why++) {
        if (!found[why].count)
            continue;
        Text t = {0};
        text_add(&t, "%s ", WORDS[why]);
        for (int i = 0; i < found[why].count && i < SHOWN; i++)
            add_name(i, found[why].name[i], &t);
        if (found[why].count > SHOWN)
            text_add(&t, " and %d more", found[why].count - SHOWN);
        return text_take(&t);
    }
    return NULL;
}
