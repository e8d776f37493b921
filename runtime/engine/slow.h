/* slow.h: devices, readers and links that are made slower, for tests of what notices them (MGPU_SLOW, MGPU_LINK_GBPS). */
#ifndef MGPU_ENGINE_SLOW_H
#define MGPU_ENGINE_SLOW_H

typedef struct Slow {
    double factor;             /* what is done takes so many times as long; 0: as long as it takes */
    double owed;               /* seconds */
} Slow;

/* the factors of a program's devices [devices], and of its readers: MGPU_SLOW=2:1.5,read:4; 0: none. Ends the program if it is not that */
void mgpu_slow_read(double *factor, int devices, double *reading);
void mgpu_slow(Slow *, double began); /* what began then is over: sleeps off what is owed for it */
double mgpu_link_rate(void);   /* bytes a second, of MGPU_LINK_GBPS; 0: not set */
void mgpu_sleep_until(double when); /* mgpu_seconds */
#endif
