/* data.h: data sets. A set is a chain of streams: a reader's, which has named columns, then one for each stage, which has
 * the stream before it and changes its samples, their order, number or columns. Whoever wants sample i asks the last
 * stream, which asks the one before it, and so on: nothing of a sample is computed before it is wanted, and what is in
 * a mapped file is not copied before it is converted into the place where the model reads it.
 *
 * To add a reader or a stage: a row in the table of dsl/readers.c (its arguments), a row in the table of run/sets.c
 * (its `open`), and a file with `open` and the functions that it puts into its Stream. */
#ifndef MGPU_DATA_H
#define MGPU_DATA_H

#include "runtime/base/base.h"
#include "runtime/data/sets.h"

/* ---- memory of one sample on its way: it lives until the sample is done. memory.c */
typedef struct Reading {       /* of one thread */
    uint64_t seed;             /* of the run; evaluation: 0 */
    int64_t epoch;             /* evaluation: 0, so that its samples are always the same */
    struct ReadingBlock *blocks;
} Reading;
void *mgpu_reading_room(Reading *, int64_t bytes); /* aligned for every type */
void mgpu_reading_reset(Reading *);                /* the sample is done */
void mgpu_reading_close(Reading *);

/* Random numbers of a sample: uniform in [0, 1), a function of (seed, epoch, stage, sample, number) alone. `key` is
 * mgpu_stage_key(reading, "NAME OF THE STAGE"); number: 0, 1, ... of the sample's numbers. */
uint64_t mgpu_stage_key(const Reading *, const char *stage);
double mgpu_stage_random(const Reading *, uint64_t key, int64_t sample, int number);

/* ---- streams */
typedef struct Item {          /* one column of one sample */
    bool wanted;               /* set by who asks: the others are left alone */
    uint8_t dtype;
    int rank;
    int64_t extent[MGPU_MAX_RANK];
    const void *data;          /* row-major; is in the stream's memory or in the Reading's. At any alignment */
} Item;

/* names of categories: an element k means text[k]; NULL: missing. places: a word's class is its place among them, in order of
 * their bytes, also where they look like numbers: folders, characters */
typedef struct Words { char **text; int64_t count; bool places; } Words;

typedef struct StreamColumn {
    const char *name;
    bool uniform;              /* dtype and extents are those of every sample; else only items know them */
    bool image;                /* [height, width, channels], u8: stages of images work on it */
    uint8_t dtype;
    int rank;
    int64_t extent[MGPU_MAX_RANK];
    const Words *words;        /* NULL: numbers. Else whole numbers (u8, u16, u32) that are numbers of words */
    const mgpu_input *input;   /* that it is for, or that decides about its type; NULL: none */
} StreamColumn;

typedef struct Stream Stream;
struct Stream {
    const char *what;          /* name of the reader or stage */
    char *where;               /* "model.net:12: ", before messages */
    int64_t samples;
    StreamColumn *columns; int column_count;
    bool costly;               /* a sample takes many microseconds: threads share the samples of a batch */
    int64_t shuffle;           /* order of an epoch: 1: random; 0: as they are stored; n: random blocks of n, random inside */
    void *state;               /* of the functions below */
    Stream *from;              /* of a stage: the stream before it, which is closed with this one */
    /* Fills the wanted items of a sample (one for each column). Threads call it at the same time: it changes nothing but
     * `items` and the Reading. Fails with mgpu_fail: where, file, sample, what is wrong, what to do. */
    void (*read)(const Stream *, int64_t sample, Reading *, Item *items);
    /* for messages: which file and place a sample's column comes from: "t.csv:17: column 'age'". NULL: that of `from` */
    void (*describe)(const Stream *, int64_t sample, int column, char *text, size_t room);
    /* what names a sample in what predict writes, and of which kind the name is: "file", "row". NULL: that of `from`, else its
     * number, "sample" */
    const char *(*name)(const Stream *, int64_t sample, char *text, size_t room);
    /* Of samples that arrive one by one; NULL: all are there. `next` reads one more; wait: until it is there. false: none is there (yet), or
     * *complaint says what is wrong with it. Those before are forgotten when they are not wanted any more */
    bool (*next)(Stream *, bool wait, char **complaint);
    void (*forget)(Stream *);
    uint64_t (*identity)(const Stream *, int64_t sample); /* by which `part` decides; NULL: its number */
    void (*narrow)(Stream *, double from, double to); /* part of a stream that has an order (windows of text): the samples
                                                       * that are wholly in these shares of it; NULL: by identity */
    void (*close)(Stream *);   /* frees the state; NULL: free(state) */
};

/* ---- inflow.c: text that arrives by a pipe, a terminal or any other file, read when it is there */
struct Inflow {
    int file;
    char *text;
    size_t begin, length, room; /* text from `begin` to `length` is there; what is before goes with the next read */
    bool ended;
};
Inflow *mgpu_open_inflow(int file); /* once so much is there as says of which kind it is: a line, eight bytes, or all */
bool mgpu_read_inflow(Inflow *, bool wait); /* more text, or the end, if it is there, or else is waited for; false: it is not there */
void mgpu_close_inflow(Inflow *);

/* what `open` gets */
typedef struct Opening {
    const mgpu_program *program;
    const mgpu_set *set;
    const mgpu_call *call;         /* the reader or stage */
    const mgpu_column *columns; int column_count; /* of a reader: those that are wanted */
    const char *folder;            /* --data, or NULL */
    const char *where;             /* "model.net:12: ", of the call */
    Stream *from;                  /* of a stage */
    Inflow *inflow;                /* of a table that arrives, which becomes the stream's; NULL: a file */
    bool fresh;                    /* a reader of a table that the data block does not speak of: mgpu_open_new_table */
} Opening;
typedef Stream *OpenStream(const Opening *);
/* of a stage: columns and all the rest are those of `from`, but for the functions */
Stream *mgpu_new_stream(const Opening *, int columns);
void mgpu_close_stream(Stream *);
int mgpu_find_column(const Stream *, const char *name); /* -1: none */
void mgpu_describe(const Stream *, int64_t sample, int column, char *text, size_t room);
const char *mgpu_name_sample(const Stream *, int64_t sample, char *text, size_t room); /* as Stream's name */

/* options of a call, checked by mgpuc: the value, or what is used where none is given */
const mgpu_option *mgpu_find_option(const mgpu_call *, const char *name); /* NULL: not given */
double mgpu_option_number(const mgpu_call *, const char *name, double otherwise);
const char *mgpu_option_text(const mgpu_call *, const char *name, const char *otherwise);
const mgpu_input *mgpu_column_input(const Opening *, const mgpu_column *); /* NULL: a column that only a stage needs */

/* ---- files.c */
/* `path` in the folder, with or without .gz; fails if there is none. The caller frees */
char *mgpu_find_file(const char *path, const char *folder, const char *where);
const char *mgpu_data_cure(
    const char *folder); /* the end of a message about what is not there: "", or where --data was not given, the option */
char *mgpu_path_in(const char *folder, const char *path); /* without looking for it; the caller frees */
struct gzFile_s *mgpu_open_packed(const char *path, const char *where, int64_t *packed); /* likewise: zlib's gzFile, gzipped or not */
bool mgpu_believes_unpacked(int64_t packed, int64_t bytes); /* false: `bytes` are too many for so few packed ones */
/* fails where it does not believe it */
void mgpu_check_unpacked(int64_t packed, int64_t bytes, const char *path, const char *where);
typedef struct FileBytes {
    const uint8_t *data; int64_t bytes;
    void *map, *owned;                     /* mapped or allocated */
    const uint8_t *member; int64_t member_bytes; /* of an archive: zip.c */
} FileBytes;
void mgpu_map_file(FileBytes *, const char *path, const char *where); /* of a plain file: nothing is read yet */
/* all of a file, unpacked if it is gzipped; where `load` is false plain ones are mapped */
void mgpu_load_file(FileBytes *, const char *path, const char *where, bool load);
void mgpu_close_file(FileBytes *);
const char *mgpu_compressed_by(const uint8_t *data, int64_t bytes); /* "compressed by zstd; unzstd unpacks it"; NULL: by none whose mark is four bytes or longer (files of numbers may begin with two) */

/* ---- strided.c: begins with rank, extent and stride alone */
typedef struct Strided {
    int rank;
    int64_t extent[MGPU_MAX_RANK + 1], stride[MGPU_MAX_RANK + 1], at[MGPU_MAX_RANK + 1];
    int64_t offset; /* where the element is; in the unit of the strides */
} Strided;
void mgpu_strided_begin(Strided *, int64_t element); /* counted in row-major order */
void mgpu_strided_next(Strided *);

/* ---- zip.c */
typedef struct Archive Archive;
Archive *mgpu_open_archive(const FileBytes *, const char *path, const char *where); /* which stays open as long as the archive */
void mgpu_close_archive(Archive *);
int mgpu_member_count(const Archive *);
char *mgpu_member_name(const Archive *, int member); /* the caller frees */
int mgpu_find_member(const Archive *, const char *name); /* -1: there is none */
/* the bytes of a member, its checksum compared: those of the file, or unpacked into *owned, which the caller frees (else NULL) */
const uint8_t *mgpu_member_bytes(const Archive *, int member, int64_t *bytes, uint8_t **owned);
void mgpu_read_member(FileBytes *, const char *name, const char *path, const char *where); /* NAME.npy of an .npz file */

/* ---- categories.c: words as classes. What the set that trains makes of its words is saved with the weights. */
Categories *mgpu_new_categories(bool fixed);  /* fixed: no table is added */
void mgpu_free_categories(Categories *);
char *mgpu_categories_text(const Categories *); /* JSON; NULL: there are none. The caller frees */
void mgpu_read_categories(Categories *, const char *json, const char *path); /* in place of those that are there */
/* the first word, of those in the order in which they come, that has no class if there are as many as the input says; -1: none */
int64_t mgpu_word_beyond(const mgpu_input *, const Words *);
/* -> by word its class, MGPU_NO_LABEL for none. `used`: by word how often it is in the set; NULL:
 * all are taken. `place`: "t.csv: column 'age'"; `beyond`: that of the
 * word of mgpu_word_beyond */
int64_t *mgpu_classes_of_words(Categories *, const mgpu_input *, const Words *, const int64_t *used, const char *place,
                               const char *beyond, char **complaint); /* NULL: the complaint is that they have none */

/* ---- words.c: distinct words in the order in which they come */
typedef struct WordTable { Words words; int64_t *slots, slot_count; } WordTable;
int64_t mgpu_intern(WordTable *, const char *text, size_t length); /* its number; text NULL: a word that is missing */
int64_t mgpu_find_word(const WordTable *, const char *text, size_t length); /* -1: it is not there */
void mgpu_free_words(WordTable *);

/* The tables of a further file, of weights of which a part is taken: of inputs that have none yet; training may renew them. -> an input whose
 * words have other classes there; NULL: there is none */
const char *mgpu_join_categories(Categories *, const Categories *more);
void mgpu_may_renew(Categories *, const mgpu_input *); /* its table, if the words of the set that trains are others */
/* by class its word, of the input's table; NULL: there is none, or the words are numbers */
const Words *mgpu_words_of_classes(const Categories *, const mgpu_input *);

/* ---- batch.c */
bool mgpu_shapes_agree(const mgpu_input *, int rank, const int64_t *extent); /* does a sample fit its input? */
int mgpu_reading_threads(void); /* how many may work on costly samples */
void mgpu_bind_set(Dataset *, const bool *wanted, Categories *); /* by input: the stream's column of its name */
/* likewise of a set whose samples are others at each use, which nobody has looked at yet: columns of numbers alone */
void mgpu_bind_columns(Dataset *, const bool *wanted);
/* whether all samples fit; false: *complaint says what does not, which who asks for it frees */
bool mgpu_check_samples(const Dataset *, char **complaint);

/* ---- arrays: idx.c, npy.c read them; a stream of them (arrays.c) has one for each column */
Stream *mgpu_open_idx(const Opening *);
Stream *mgpu_open_npy(const Opening *);
Stream *mgpu_open_csv(const Opening *);
Stream *mgpu_open_cifar(const Opening *);
Stream *mgpu_open_tokens(const Opening *); /* windows.c */
Stream *mgpu_open_characters(const Opening *);
Stream *mgpu_open_text(const Opening *);
int mgpu_decode_utf8(const uint8_t *text, int64_t bytes, int64_t i,
                     uint32_t *code); /* utf8.c: length of the character at i; 0: no UTF-8 */
typedef struct Vocabulary Vocabulary; /* vocabulary.c: of a call of `text` */
Vocabulary *mgpu_open_vocabulary(const mgpu_call *, const char *folder, const char *where);
void *mgpu_encode_text(const Vocabulary *, const uint8_t *text, int64_t bytes, uint8_t *dtype, int64_t *count); /* the caller frees the tokens */
bool mgpu_spell_token(const Vocabulary *, int64_t token, bool first, FILE *); /* its bytes; false: there is no such token */
void mgpu_close_vocabulary(Vocabulary *);
const mgpu_call *
mgpu_reader_of_text(const mgpu_program *); /* generate.c: the first call of characters, text or tokens; NULL: none */
/* columns of arrays, which become the stream's; paths and lines (for messages) are copied */
Stream *mgpu_array_stream(const Opening *, int columns);
void mgpu_set_array(Stream *, int column, const char *name, const mgpu_input *, const Array *, const char *path,
                    const char *where);

void mgpu_set_names(Stream *, char **names); /* by sample a file; they become the stream's, which has names already or not */

/* ---- stages */
Stream *mgpu_open_part(const Opening *);
Stream *mgpu_open_pairs(const Opening *);
#endif
