/* inflow.c: reads text from a pipe, a terminal or a file as it arrives. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns whether there is something to read; with `wait`, waits for it. */
static bool is_there(const Inflow *in, bool wait)
{
    struct pollfd asked = {.fd = in->file, .events = POLLIN};
    int ready;
    do
        ready = poll(&asked, 1, wait ? -1 : 0);
    while (ready < 0 && errno == EINTR);
    return ready != 0; /* read reports errors */
}

bool mgpu_read_inflow(Inflow *in, bool wait)
{
    ssize_t got = -1;
    memmove(in->text, in->text + in->begin, in->length - in->begin);
    in->length -= in->begin;
    in->begin = 0;
    if (in->length == in->capacity)
        in->text = mgpu_resize(in->text, in->capacity *= 2);
    while (got < 0) {
        if (in->ended || !is_there(in, wait))
            return false;
        got = read(in->file, in->text + in->length, in->capacity - in->length);
        if (got < 0 && errno != EINTR && errno != EAGAIN) /* EAGAIN: another process was faster */
            mgpu_fail(MGPU_MACHINE_FAILED, "standard input cannot be read or kept: %s", strerror(errno));
        if (got < 0 && !wait)
            return false;
    }
    in->length += (size_t)got;
    in->ended = got == 0;
    return true;
}

Inflow *mgpu_open_inflow(int file)
{
    enum { LONGEST_MARK = 8, PNG = 0x89 };
    Inflow *in = mgpu_allocate(1, sizeof *in);
    in->file = file;
    in->capacity = 1 << 16;
    in->text = mgpu_allocate(in->capacity, 1);
    do /* the signature of PNG contains line ends */
        mgpu_read_inflow(in, true);
    while (!in->ended && in->length < LONGEST_MARK && ((uint8_t)in->text[0] == PNG || !memchr(in->text, '\n', in->length)));
    return in;
}

void mgpu_close_inflow(Inflow *in)
{
    if (in)
        free(in->text);
    free(in);
}
