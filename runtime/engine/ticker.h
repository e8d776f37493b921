/* ticker.h: a thread that calls `tick` every so many seconds in which it could run; until it is closed (NULL: there is none). */
#ifndef MGPU_ENGINE_TICKER_H
#define MGPU_ENGINE_TICKER_H

typedef struct Ticker Ticker;
Ticker *mgpu_ticker_open(const char *name, double seconds, void (*tick)(void *), void *context);
void mgpu_ticker_close(Ticker *);
#endif
