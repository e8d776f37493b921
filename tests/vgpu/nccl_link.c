/* nccl_link.c: how the processes of a communicator of libnccl.so.2 for virtual GPUs reach each other, on one machine. Who makes
 * the unique id listens at a socket of that name, and what one process sends it passes on to all others, in order: to those that
 * come later, too, if it is to be kept. A process that is gone without a word is told to all others.
 *
 * Each process has a thread that sends, so that who holds the lock of the virtual GPUs waits for nobody, and one that
 * receives. */
#include "tests/vgpu/nccl_link.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MOST_PROCESSES = 64 };
typedef struct Frame {
    size_t bytes;
    struct Frame *next;
    int kept, last; /* last: no more comes from its process */
    unsigned char data[];
} Frame;
typedef struct Header {
    size_t bytes;
    int kept, last;
} Header;
static const Header LOST = {0, 0, 0}; /* nothing in it */

struct Link {
    int socket;
    pthread_t sender, receiver;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Frame *first, **end; /* to be sent */
    bool closing;
    void (*arrived)(void *context, const void *data, size_t bytes);
    void (*lost)(void *context);
    void *context;
};

static bool write_all(int to, const void *data, size_t bytes)
{
    for (const char *at = data; bytes > 0;) {
        ssize_t n = send(to, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static bool read_all(int from, void *data, size_t bytes)
{
    for (char *at = data; bytes > 0;) {
        ssize_t n = recv(from, at, bytes, 0);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static Frame *new_frame(Header h)
{
    Frame *f = malloc(sizeof *f + h.bytes);
    if (!f)
        abort();
    f->next = NULL;
    f->bytes = h.bytes;
    f->kept = h.kept;
    f->last = h.last;
    return f;
}

static bool write_frame(int to, const Frame *f)
{
    return write_all(to, &(Header){f->bytes, f->kept, f->last}, sizeof(Header)) && write_all(to, f->data, f->bytes);
}

static Frame *read_frame(int from) /* NULL: nobody is there any more */
{
    Header h;
    if (!read_all(from, &h, sizeof h))
        return NULL;
    Frame *f = new_frame(h);
    if (read_all(from, f->data, h.bytes))
        return f;
    free(f);
    return NULL;
}

static struct sockaddr_un address_of(const char *id, socklen_t *length)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX}; /* of no file: it begins with a zero */
    strncpy(a.sun_path + 1, id, sizeof a.sun_path - 2);
    *length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(id));
    return a;
}

/* a thread that leaves signals to the program's own */
static void begin_thread(pthread_t *thread, void *(*run)(void *), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (pthread_create(thread, NULL, run, context))
        abort();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- who passes on */
typedef struct Hub {
    struct pollfd polled[MOST_PROCESSES + 1];
    bool ended[MOST_PROCESSES + 1];
    int count;
    Frame *kept[256];
    int kept_count;
} Hub;
static pthread_t hub_thread;
static bool has_hub;

static void pass_on(const Hub *h, int from, const Frame *f)
{
    for (int i = 1; i <= h->count; i++)
        if (i != from && h->polled[i].fd >= 0)
            (void)write_frame(h->polled[i].fd, f); /* one that is gone is noticed when it is read from */
}

static void welcome(Hub *h)
{
    int socket = accept(h->polled[0].fd, NULL, NULL);
    if (socket < 0 || h->count == MOST_PROCESSES)
        return;
    h->polled[++h->count] = (struct pollfd){socket, POLLIN, 0};
    for (int i = 0; i < h->kept_count; i++)
        (void)write_frame(socket, h->kept[i]);
}

static void hear(Hub *h, int from)
{
    Frame *f = read_frame(h->polled[from].fd);
    if (f) {
        h->ended[from] = f->last;
        pass_on(h, from, f);
        if (f->kept && h->kept_count < (int)(sizeof h->kept / sizeof *h->kept))
            h->kept[h->kept_count++] = f;
        else
            free(f);
        return;
    }
    Frame *lost = new_frame(LOST);
    if (!h->ended[from])
        pass_on(h, from, lost);
    free(lost);
    close(h->polled[from].fd);
    h->polled[from].fd = -1;
}

static bool is_over(const Hub *h)
{
    for (int i = 1; i <= h->count; i++)
        if (h->polled[i].fd >= 0)
            return false;
    return h->count > 0;
}

static void *run_hub(void *context)
{
    Hub *h = context;
    while (!is_over(h)) {
        if (poll(h->polled, (nfds_t)h->count + 1, -1) < 0)
            continue;
        if (h->polled[0].revents)
            welcome(h);
        for (int i = 1; i <= h->count; i++)
            if (h->polled[i].fd >= 0 && h->polled[i].revents)
                hear(h, i);
    }
    close(h->polled[0].fd);
    for (int i = 0; i < h->kept_count; i++)
        free(h->kept[i]);
    free(h);
    return NULL;
}

bool vgpu_link_id(char id[128])
{
    unsigned long long random = 0;
    socklen_t length;
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (has_hub || getrandom(&random, sizeof random, 0) != sizeof random)
        return false;
    snprintf(id, 128, "vgpu-nccl-%d-%llx", (int)getpid(), random);
    struct sockaddr_un a = address_of(id, &length);
    if (listener < 0 || bind(listener, (struct sockaddr *)&a, length) || listen(listener, MOST_PROCESSES))
        return false;
    Hub *h = calloc(1, sizeof *h);
    if (!h)
        abort();
    h->polled[0] = (struct pollfd){listener, POLLIN, 0};
    has_hub = true;
    begin_thread(&hub_thread, run_hub, h);
    return true;
}

/* ---- a process */
static void *run_sender(void *context)
{
    Link *l = context;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->first && !l->closing)
            pthread_cond_wait(&l->changed, &l->lock);
        Frame *f = l->first;
        if (!f)
            break;
        l->first = f->next;
        l->end = l->first ? l->end : &l->first;
        pthread_mutex_unlock(&l->lock);
        (void)write_frame(l->socket, f); /* who is gone is noticed by the receiver */
        free(f);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void *run_receiver(void *context)
{
    Link *l = context;
    for (;;) {
        Frame *f = read_frame(l->socket);
        pthread_mutex_lock(&l->lock);
        bool closing = l->closing;
        pthread_mutex_unlock(&l->lock);
        if (!f && closing)
            return NULL;
        if (f && f->bytes)
            l->arrived(l->context, f->data, f->bytes);
        else
            l->lost(l->context);
        if (!f)
            return NULL;
        free(f);
    }
}

Link *vgpu_link_open(const char id[128], void (*arrived)(void *, const void *, size_t), void (*lost)(void *), void *context)
{
    socklen_t length;
    struct sockaddr_un a = address_of(id, &length);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || connect(s, (struct sockaddr *)&a, length)) {
        close(s);
        return NULL;
    }
    Link *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    *l = (Link){.socket = s, .arrived = arrived, .lost = lost, .context = context, .end = &l->first};
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    begin_thread(&l->sender, run_sender, l);
    begin_thread(&l->receiver, run_receiver, l);
    return l;
}

void vgpu_link_send(Link *l, const void *head, size_t head_bytes, const void *data, size_t bytes, int how)
{
    Frame *f = new_frame((Header){head_bytes + bytes, how == LINK_KEEP, how == LINK_LAST});
    memcpy(f->data, head, head_bytes);
    if (bytes)
        memcpy(f->data + head_bytes, data, bytes);
    pthread_mutex_lock(&l->lock);
    *l->end = f;
    l->end = &f->next;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

void vgpu_link_close(Link *l)
{
    pthread_mutex_lock(&l->lock);
    l->closing = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->sender, NULL);
    shutdown(l->socket, SHUT_RDWR);
    pthread_join(l->receiver, NULL);
    close(l->socket);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    free(l);
    if (has_hub)
        pthread_join(hub_thread, NULL);
    has_hub = false;
}
