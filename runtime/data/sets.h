/* sets.h: data sets, for those who train on them. */
#ifndef MGPU_RUNTIME_DATA_SETS_H
#define MGPU_RUNTIME_DATA_SETS_H

#include "runtime/base/base.h"
#include "runtime/base/trace.h"

/* ---- data sets: run/sets.c opens them, batch.c brings samples to the model's inputs, order.c says in which order; data.h has
 * what readers and stages are made of */
typedef struct Array {         /* what a file holds: samples of one shape, elements in this machine's byte order */
    uint8_t dtype;
    int rank;                  /* of one sample */
    int64_t extent[MGPU_MAX_RANK];
    int64_t samples, sample_bytes;
    const uint8_t *data;       /* at any alignment */
    void *owned;               /* to be freed; NULL: data is in a mapped file */
    void *map; size_t map_bytes;
} Array;
/* Errors end the program with status 1: path: what is wrong. `where` is put in front ("model.net:12: "). Plain files are
 * mapped where their elements are in them as they are, unless `load`. */
void mgpu_read_idx(Array *, const char *path, const char *where, bool load);
/* `member`: which array of an .npz file; NULL: none is read */
void mgpu_read_npy(Array *, const char *path, const char *where, int sample_rank, bool load, const char *member);
/* of the bytes of such a file: a.data is in them, or a.owned */
void mgpu_parse_npy(Array *a, const uint8_t *data, int64_t bytes, const char *path, const char *where, int sample_rank);
void mgpu_free_array(Array *);
void mgpu_swap_bytes(void *data, int64_t count, int64_t bytes); /* each element's bytes in reverse */
void mgpu_write_npy(FILE *, uint8_t dtype, int rank, const int64_t *extent, const void *data);

typedef struct Inflow Inflow;         /* data.h: text that arrives */
typedef struct Categories Categories; /* categories.c: the classes of words, fixed by the set that trains */
typedef struct Dataset {
    const char *name;
    const mgpu_program *program;
    int64_t samples, shuffle;  /* shuffle: as in Stream */
    struct Stream *stream;
    struct Bound *bound;       /* by input: where it comes from */
    struct Workers *workers;   /* NULL: samples cost nothing */
} Dataset;
void mgpu_close_set(Dataset *);
const mgpu_set *mgpu_find_set(const mgpu_program *, const char *name); /* NULL: there is none */
/* The samples at n places of the set: to[i] (NULL: not wanted) gets the elements of input i, one sample after the other.
 * Any number of threads may call it. Evaluation has seed 0 and epoch 0. */
void mgpu_read_samples(const Dataset *, uint8_t *const *to, const int64_t *index, int64_t n, uint64_t seed, int64_t epoch);
bool mgpu_is_read(const Dataset *, int input); /* the set has it */
/* Of a set whose samples arrive (Stream's next): waits for one, and takes those that are there then, at most so many; those before are
 * forgotten. -> how many, before the first of which *complaint says what is wrong; 0 without a complaint: no sample comes any more */
int64_t mgpu_next_samples(Dataset *, int64_t most, Categories *, char **complaint);
/* fingerprint.c: of its size and of some of its samples, as hexadecimal digits */
void mgpu_fingerprint(const Dataset *, char text[65]);
/* These will be asked for soon: where samples are costly, threads begin to read them. Returns at once */
void mgpu_read_ahead(const Dataset *, const int64_t *index, int64_t n, uint64_t seed, int64_t epoch);
int mgpu_decoders(const Dataset *); /* threads of the set's own that read samples */
/* From now on each notes in its log when it reads samples; NULL: none. Returns the logs that were used before, which nobody uses any more */
SpanLog **mgpu_note_decoding(Dataset *, SpanLog **logs);
/* shuffle 0: as they are stored; 1: a random order; n: random blocks of n samples, in random order inside */
void mgpu_permutation(int64_t *order, int64_t n, uint64_t seed, int64_t epoch, int64_t shuffle);
void mgpu_fill_random(void *to, const mgpu_input *, int64_t samples, uint64_t seed); /* bench */
uint64_t mgpu_hash_text(const char *);   /* as the compiler hashes paths */
#endif
