/* A maximum under a condition, a sum in double and a sum under the same condition in one simd loop, whose last turn is not full:
 * gcc 12.2 leaves elements of the second out. */
enum { N = 33 };

__attribute__((noinline, noipa)) static void reduce(const float *z, int label, float *most_of, double *squares_of, double *own_of)
{
    float most = -1e30f;
    double squares = 0, own = 0;
#pragma omp simd reduction(max : most) reduction(+ : squares) reduction(+ : own)
    for (long j = 0; j < N; j++) {
        const _Bool hot = j == label;
        const float here = hot ? z[j] : -1;
        most = here > most ? here : most;
        squares += z[j] * z[j];
        own += hot ? z[j] : 0;
    }
    *most_of = most;
    *squares_of = squares;
    *own_of = own;
}

int main(void)
{
    static float z[N];
    for (int j = 0; j < N; j++)
        z[j] = (float)(j * 7 % 13 - 6) / 4;
    int wrong = 0;
    for (int label = 0; label < N; label++) {
        float most;
        double squares, own, expected = 0;
        reduce(z, label, &most, &squares, &own);
        for (volatile int j = 0; j < N; j++)
            expected += (double)(z[j] * z[j]);
        wrong |= squares != expected || own != (double)z[label] || most != (z[label] > -1 ? z[label] : -1);
    }
    return wrong;
}
