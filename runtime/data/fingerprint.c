/* fingerprint.c: hashes the size and some samples of a data set, so that a resumed run recognizes it.
 *
 * The samples are spread over the set, including the first and the last, and read as in evaluation, without random changes. So
 * another file, order or column is noticed, but a few changed values hardly ever, because a large set is not read as a whole. */
#include "runtime/base/base.h"
#include "runtime/base/sha256.h"
#include "runtime/data/sets.h"

#include <stdlib.h>

enum { SAMPLES = 64, COSTLY_SAMPLES = 4 };

static int64_t places(const Dataset *d, int64_t *index)
{
    int64_t most = d->workers ? COSTLY_SAMPLES : SAMPLES, n = d->samples < most ? d->samples : most;
    for (int64_t k = 0; k < n; k++) /* divides first, so that no product overflows int64_t */
        index[k] = n < 2 ? 0 : k * ((d->samples - 1) / (n - 1)) + k * ((d->samples - 1) % (n - 1)) / (n - 1);
    return n;
}

void mgpu_fingerprint(const Dataset *d, char text[65])
{
    const mgpu_program *p = d->program;
    int64_t index[SAMPLES], n = places(d, index);
    uint8_t **to = mgpu_allocate((size_t)p->input_count, sizeof *to);
    Sha256 sha = mgpu_sha256_begin();
    mgpu_sha256_add(&sha, &d->samples, sizeof d->samples);
    for (int i = 0; i < p->input_count; i++)
        if (mgpu_is_read(d, i))
            to[i] = mgpu_allocate((size_t)(n * mgpu_tensor_bytes(&p->inputs[i].tensor)) + 1, 1);
    if (n > 0)
        mgpu_read_samples(d, to, index, n, 0, 0);
    for (int i = 0; i < p->input_count; i++) {
        if (to[i]) {
            mgpu_sha256_add_text(&sha, p->inputs[i].tensor.name);
            mgpu_sha256_add(&sha, to[i], (size_t)(n * mgpu_tensor_bytes(&p->inputs[i].tensor)));
        }
        free(to[i]);
    }
    free(to);
    Digest digest = mgpu_sha256_end(&sha);
    mgpu_digest_text(&digest, 32, text);
}
