/* sets.h: data sets, for their users. */
#ifndef MGPU_RUNTIME_DATA_SETS_H
#define MGPU_RUNTIME_DATA_SETS_H

#include "runtime/base/base.h"
#include "runtime/base/trace.h"

/* ---- data sets: run/sets.c opens them, batch.c copies samples to the model's inputs, order.c decides their order; data.h
 * defines readers and stages */
typedef struct Array { /* the data of a file: samples of one shape, in native byte order */
    uint8_t dtype;
    int rank; /* rank of one sample */
    int64_t extent[MGPU_MAX_RANK];
    int64_t samples, sample_bytes;
    const uint8_t *data; /* unaligned */
    void *owned;         /* to be freed; NULL if data is in a mapped file */
    void *map;
    size_t map_bytes;
} Array;
/* Errors end the program with status 1: "WHERE PATH: what is wrong"; `where` is a prefix such as "model.net:12: ". Plain files
 * are mapped if their elements need no conversion, unless `load` is set. */
void mgpu_read_idx(Array *, const char *path, const char *where, bool load);
/* `whole`: the array is one sample, which may be empty, otherwise its first axis counts samples. `member`: the array to read from
 * an .npz file; NULL: such files are errors */
void mgpu_read_npy(Array *, const char *path, const char *where, bool whole, bool load, const char *member);
/* Parses the bytes of such a file: a.data points into them, or to a.owned. If its elements or shape have no counterpart here, the
 * message is stored in *unreadable, or, if unreadable is NULL, ends the program. */
void mgpu_parse_npy(Array *a, const uint8_t *data, int64_t bytes, const char *path, const char *where, bool whole,
                    char **unreadable);
void mgpu_free_array(Array *);
void mgpu_swap_bytes(void *data, int64_t count, int64_t bytes); /* reverses the bytes of each element */
void mgpu_write_npy(FILE *, uint8_t dtype, int rank, const int64_t *extent, const void *data);

typedef struct Inflow Inflow;         /* data.h: text that arrives */
typedef struct Categories Categories; /* categories.c: the classes of words, defined by the training set */
typedef struct Dataset {
    const char *name;
    const mgpu_program *program;
    int64_t samples, shuffle; /* shuffle: see Stream */
    struct Stream *stream;
    struct Bound *bound;     /* for each input: its source */
    struct Workers *workers; /* NULL if samples are cheap */
} Dataset;
void mgpu_close_set(Dataset *);
const mgpu_set *mgpu_find_set(const mgpu_program *, const char *name); /* NULL if there is none */
/* Reads the samples with n indices: to[i] (NULL: not wanted) gets the elements of input i, one sample after the other. Any number
 * of threads may call it. Evaluation has seed 0 and epoch 0. */
void mgpu_read_samples(const Dataset *, uint8_t *const *to, const int64_t *index, int64_t n, uint64_t seed, int64_t epoch);
bool mgpu_is_read(const Dataset *, int input); /* true if the set has this input */
/* For sets whose samples arrive (Stream.next): waits for one, takes those that are there, at most `most`, and forgets earlier
 * ones. Returns their number, and what is wrong with the next one in *complaint. 0 without a complaint is the end. */
int64_t mgpu_next_samples(Dataset *, int64_t most, Categories *, char **complaint);
/* fingerprint.c: hexadecimal hash of the set's size and some of its samples */
void mgpu_fingerprint(const Dataset *, char text[65]);
/* Threads of a set with costly samples start to read these, which will be requested soon. Returns at once. */
void mgpu_prefetch_samples(const Dataset *, const int64_t *index, int64_t n, uint64_t seed, int64_t epoch);
int mgpu_decoders(const Dataset *); /* number of threads that read the set's samples */
/* From now on each thread logs when it reads samples; NULL: none does. Returns the previous logs, which are no longer used. */
SpanLog **mgpu_log_decoding(Dataset *, SpanLog **logs);
/* shuffle 0: as stored; 1: a random order; n: blocks of n samples in random order, shuffled inside */
void mgpu_permutation(int64_t *order, int64_t n, uint64_t seed, int64_t epoch, int64_t shuffle);
void mgpu_fill_random(void *to, const mgpu_input *, int64_t samples, uint64_t seed); /* for bench */
uint64_t mgpu_hash_text(const char *); /* the compiler hashes paths in the same way */
#endif
