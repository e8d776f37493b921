/* mgpu_moments.h: moments: the number of elements, their mean, and the sum of their squared distances from it. A tensor of
 * moments is [count, 3]. Moments of two sets are merged by Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for
 * computing sample variances", 1979, without cancellation even if the mean is far from 0. */
#ifndef MGPU_MOMENTS_H
#define MGPU_MOMENTS_H

#ifndef MGPU_DEVICE_H /* it declares what is needed of these */
#include <stdbool.h>
#include <stdint.h>
#endif
#include "mgpu_function.h"

/* Returns how many of the samples [begin, end) are valid; the first ones of a device are. */
MGPU_FUNCTION double mgpu_valid_samples(int64_t valid, int64_t begin, int64_t end)
{
    return valid <= begin ? 0 : (double)((valid < end ? valid : end) - begin);
}

/* Merges the moments of `count` elements; first: there are no moments yet to merge with. */
MGPU_FUNCTION void mgpu_merge_moments(double *n, double *mean, double *squares, double count, double own, double own_squares,
                                      bool first)
{
    const double before = first ? 0 : *n, all = before + count, share = all > 0 ? count / all : 0;
    const double away = before > 0 && count > 0 ? own - *mean : 0;
    *squares = before > 0 ? count > 0 ? *squares + own_squares + away * away * (before * share) : *squares : own_squares;
    *mean = before > 0 ? *mean + away * share : own;
    *n = all;
}
#endif
