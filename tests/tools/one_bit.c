/* one_bit: SGD with one-bit gradients (Seide et al. 2014) as the algorithm is written, for the network of tests/one_bit.test: its
 * losses, one a line. Slow and plain: nothing is shared with what it checks.
 *
 *     one_bit FILE.csv DEVICES BATCH STEPS RATE ACCUMULATE [STOP THEN]
 *
 * After step STOP it goes on with THEN devices: the first one has what all have left. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { W = 1500, V = 2400, ALL = W + V, SEGMENT = 1024, MOST_SAMPLES = 1000, MOST_DEVICES = 8 };

static double x[MOST_SAMPLES], y[MOST_SAMPLES];
static double weight[ALL], bias, gradient[MOST_DEVICES][ALL], left[MOST_DEVICES][ALL], total[ALL]; /* w, then v */
static int devices, micro; /* micro: samples of a micro-batch */

static int read_samples(const char *path)
{
    char line[200];
    int count = 0;
    FILE *f = fopen(path, "r");
    if (!f || !fgets(line, sizeof line, f))
        return 0;
    while (count < MOST_SAMPLES && fscanf(f, "%lf,%lf", &x[count], &y[count]) == 2)
        count++;
    fclose(f);
    return count;
}

static double wave(int k, double at) { return k < W ? cos((k + 1) * 0.37 * at) : sin((k - W + 1) * 0.23 * at); }

/* of each segment one mean for what is above 0 and one for the rest; the difference is left for the next step */
static void quantise(int d, int first, int last)
{
    double high = 0, low = 0;
    int highs = 0, lows = 0;
    for (int k = first; k < last; k++) {
        double c = gradient[d][k] + left[d][k];
        if (c > 0)
            high += c, highs++;
        else
            low += c, lows++;
    }
    high /= highs ? highs : 1;
    low /= lows ? lows : 1;
    for (int k = first; k < last; k++) {
        double c = gradient[d][k] + left[d][k], sent = c > 0 ? high : low;
        left[d][k] = c - sent;
        total[k] += sent;
    }
}

static void quantise_tensor(int d, int first, int last)
{
    for (int k = first; k < last; k += SEGMENT)
        quantise(d, k, k + SEGMENT < last ? k + SEGMENT : last);
}

static int device_of(int place)
{
    int d = 0;
    for (int share; place >= (share = micro / devices + (d < micro % devices)); d++)
        place -= share;
    return d;
}

static void go_on_with(int count)
{
    for (int d = 1; d < devices; d++)
        for (int k = 0; k < ALL; k++) {
            left[0][k] += left[d][k];
            left[d][k] = 0;
        }
    devices = count;
}

static double step(int first, int samples, double rate)
{
    double loss = 0, bias_gradient = 0;
    memset(gradient, 0, sizeof gradient);
    memset(total, 0, sizeof total);
    for (int s = first; s < first + samples; s++) {
        double e = bias - y[s], *g = gradient[device_of((s - first) % micro)];
        for (int k = 0; k < ALL; k++)
            e += weight[k] * wave(k, x[s]);
        loss += e * e / samples;
        for (int k = 0; k < ALL; k++)
            g[k] += 2 * e / samples * wave(k, x[s]);
        bias_gradient += 2 * e / samples;
    }
    for (int d = 0; d < devices; d++) {
        quantise_tensor(d, 0, W);
        quantise_tensor(d, W, ALL);
    }
    for (int k = 0; k < ALL; k++)
        weight[k] -= rate * total[k];
    bias -= rate * bias_gradient;
    return loss;
}

int main(int argc, char **argv)
{
    int count = argc >= 7 ? read_samples(argv[1]) : 0;
    if (!count) {
        fprintf(stderr, "usage: one_bit FILE.csv DEVICES BATCH STEPS RATE ACCUMULATE [STOP THEN]\n");
        return 2;
    }
    devices = atoi(argv[2]);
    int batch = atoi(argv[3]), steps = atoi(argv[4]), accumulate = atoi(argv[6]), stop = argc > 8 ? atoi(argv[7]) : 0;
    micro = (batch + accumulate - 1) / accumulate;
    for (int k = 0; k < ALL; k++)
        weight[k] = 0.01;
    for (int s = 0; s < steps; s++) {
        int first = s % ((count + batch - 1) / batch) * batch;
        if (stop && s == stop)
            go_on_with(atoi(argv[8]));
        printf("{\"event\":\"step\",\"loss\":%.17g}\n",
               step(first, count - first < batch ? count - first : batch, atof(argv[5])));
    }
    return 0;
}
