/* Multiply-adds of what is 0 under conditions: gcc 12.2 with AVX-512 makes masked ones of them and leaves the product out. */
enum { HALF = 7, N = 2 * HALF, ROWS = 5 };

__attribute__((noinline, noipa)) static void join(const float *restrict d, const float *restrict y, const float *restrict bias,
                                                  const float *restrict e, float *restrict joined, double *restrict total,
                                                  long rows)
{
    double sum[N];
    for (long j = 0; j < N; j++)
        sum[j] = 0;
    for (long i = 0; i < rows; i++) {
#pragma omp simd
        for (long j = 0; j < N; j++) {
            const _Bool low = j < HALF, high = j >= HALF;
            const float product =
                (high ? d[N * i + j - HALF] : 0) * ((high ? y[N * i + j - HALF] : 0) + (high ? bias[j - HALF] : 0));
            const float here = (int)j < HALF ? (low ? d[N * i + j] : 0) * (low ? e[HALF * i + j] : 0)
                                             : (high ? d[N * i + j] : 0) + product * (high ? e[HALF * i + j - HALF] : 0);
            sum[j] += here;
            joined[N * i + j] = here;
        }
    }
    for (long j = 0; j < N; j++)
        total[j] = sum[j];
}

int main(void)
{
    static float d[ROWS * N], y[ROWS * N], bias[N], e[ROWS * HALF], joined[ROWS * N];
    static double total[N];
    for (int i = 0; i < ROWS * N; i++) { /* small whole numbers: all sums and products are exact */
        d[i] = (float)(i % 7 - 3);
        y[i] = (float)(i % 5 - 2);
        e[i / 2] = (float)(i % 3 + 1);
        bias[i % N] = (float)(i % 4);
    }
    join(d, y, bias, e, joined, total, ROWS);
    for (volatile int i = 0; i < ROWS; i++)
        for (volatile int j = 0; j < HALF; j++) {
            const float low = d[N * i + j] * e[HALF * i + j];
            const float high = d[N * i + j + HALF] + d[N * i + j] * (y[N * i + j] + bias[j]) * e[HALF * i + j];
            if (joined[N * i + j] != low || joined[N * i + j + HALF] != high)
                return 1;
        }
    return 0;
}
