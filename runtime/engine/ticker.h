/* ticker.h: a thread that calls `tick` every `seconds`, not counting time in which it could not run, until it is closed. NULL is
 * a closed ticker. */
#ifndef MGPU_ENGINE_TICKER_H
#define MGPU_ENGINE_TICKER_H

typedef struct Ticker Ticker;
Ticker *mgpu_ticker_open(const char *name, double seconds, void (*tick)(void *), void *context);
void mgpu_ticker_close(Ticker *);
#endif
