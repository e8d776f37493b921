/* slow.h: devices, readers and links that are made slower, for tests of what notices them (MGPU_SLOW, MGPU_LINK_GBPS). */
#ifndef MGPU_ENGINE_SLOW_H
#define MGPU_ENGINE_SLOW_H

#include <pthread.h>

typedef struct Slow {
    double factor;             /* what is done takes so many times as long; 0: as long as it takes */
    double owed;               /* seconds */
} Slow;

/* the factors of a program's devices [devices], and of its readers: MGPU_SLOW=2:1.5,read:4; 0: none. Ends the program if it is not that */
void mgpu_slow_read(double *factor, int devices, double *reading);
/* around what is slowed, on one thread: the second sleeps off what is owed for it, which waiting for a core that others have is no part of */
double mgpu_slow_begin(const Slow *);
void mgpu_slow_end(Slow *, double began);
double mgpu_link_rate(void);   /* bytes a second, of MGPU_LINK_GBPS; 0: not set */
void mgpu_sleep_until(double when); /* mgpu_seconds */

/* a device's link, whose rate the transfers of several lanes share */
enum { SLOW_FLOWS = 2 };
typedef struct SlowLink { pthread_mutex_t lock; double at, left[SLOW_FLOWS]; } SlowLink; /* at: until then what is left is known */
void mgpu_slow_link_begin(SlowLink *, int flow, double bytes, double rate);
void mgpu_slow_link_end(SlowLink *, int flow, double rate); /* sleeps until it is over */
#endif
