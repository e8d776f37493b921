/* slow_device.h: slows down devices, readers and links, for tests of what detects that (MGPU_SLOW, MGPU_LINK_GBPS). */
#ifndef MGPU_ENGINE_SLOW_H
#define MGPU_ENGINE_SLOW_H

#include <pthread.h>

typedef struct Slow {
    double factor;    /* time of slowed work / its real time; 0: it is not slowed */
    double pending_s; /* seconds that are still to be slept */
} Slow;

/* Reads MGPU_SLOW=2:1.5,read:4: the factors of the devices [devices] and of the readers; entries that are not named keep their
 * values. Ends the program if it is malformed. */
void mgpu_slow_read(double *factor, int devices, double *reading);
/* Enclose slowed work on one thread. The second one sleeps for the additional time. Time in which the thread waited for a core is
 * not slowed. */
double mgpu_slow_begin(const Slow *);
void mgpu_slow_end(Slow *, double began);
double mgpu_link_rate(void);        /* bytes per second of MGPU_LINK_GBPS; 0: not set */
void mgpu_sleep_until(double when); /* in the time of mgpu_seconds */

/* The link of a device, whose bandwidth is shared by the transfers of several lanes. */
enum { SLOW_FLOWS = 2 };
/* left: bytes per flow, as of time `at` */
typedef struct SlowLink {
    pthread_mutex_t lock;
    double at, left[SLOW_FLOWS];
} SlowLink;
void mgpu_slow_link_begin(SlowLink *, int flow, double bytes, double rate);
void mgpu_slow_link_end(SlowLink *, int flow, double rate); /* sleeps until the flow's transfer is over */
#endif
