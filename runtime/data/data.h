/* data.h: data sets. A set is a chain of streams: a reader's, which has named columns, then one for each stage, which transforms
 * the samples of the stream before it, or changes their order, number or columns. Sample i is requested from the last stream,
 * which requests it from the one before it, and so on. Nothing is computed before it is requested, and data in mapped files is
 * not copied before it is converted into the memory that the model reads.
 *
 * To add a reader or a stage: a row in the table of dsl/readers.c (its arguments), a row in the table of run/sets.c (its `open`),
 * and a file with `open` and the functions of its Stream. */
#ifndef MGPU_DATA_H
#define MGPU_DATA_H

#include "runtime/base/base.h"
#include "runtime/data/sets.h"

/* ---- memory for one sample, freed when the sample has been read (stream.c) */
typedef struct Reading { /* belongs to one thread */
    uint64_t seed;       /* the run's seed; 0 in evaluation */
    int64_t epoch;       /* 0 in evaluation, so that its samples never change */
    struct ReadingBlock *blocks;
} Reading;
void *mgpu_reading_allocate(Reading *, int64_t bytes); /* aligned for every type */
void mgpu_reading_reset(Reading *);                    /* call when the sample has been read */
void mgpu_reading_close(Reading *);

/* Random numbers of a sample, uniform in [0, 1). They depend only on (seed, epoch, stage, sample, number). `key` is
 * mgpu_stage_key(reading, "NAME OF THE STAGE"); the numbers of a sample are counted from 0. */
uint64_t mgpu_stage_key(const Reading *, const char *stage);
double mgpu_stage_random(const Reading *, uint64_t key, int64_t sample, int number);

/* ---- streams */
typedef struct Item { /* one column of one sample */
    bool wanted;      /* set by the caller; other columns are not read */
    uint8_t dtype;
    int rank;
    int64_t extent[MGPU_MAX_RANK];
    const void *data; /* row-major, unaligned; in the stream's memory or the Reading's */
} Item;

/* Words that numbers stand for: k is text[k]; NULL is a missing one. places: the class of a word is its index in byte order, even
 * if it looks like a number (folders, characters). */
typedef struct Words {
    char **text;
    int64_t count;
    bool places;
} Words;

typedef struct StreamColumn {
    const char *name;
    bool uniform; /* all samples have this dtype and these extents; otherwise see the items */
    bool image;   /* [height, width, channels], u8: image stages apply to it */
    uint8_t dtype;
    int rank;
    int64_t extent[MGPU_MAX_RANK];
    const Words *words;      /* if not NULL, elements (u8, u16, u32) are indices of these words */
    const mgpu_input *input; /* the input that reads it or determines its type, or NULL */
} StreamColumn;

typedef struct Stream Stream;
struct Stream {
    const char *what; /* name of the reader or stage */
    char *where;      /* prefix of messages: "model.net:12: " */
    int64_t samples;
    StreamColumn *columns;
    int column_count;
    bool costly;     /* a sample takes many microseconds: threads share the samples of a batch */
    int64_t shuffle; /* order of an epoch: 1 random; 0 as stored; n blocks of n samples in random order, shuffled inside */
    void *state;     /* for the functions below */
    Stream *from;    /* the stream before a stage, closed with this one; NULL for a reader */
    /* Fills the wanted items of a sample, one for each column. Threads call it concurrently: it may change only `items` and the
     * Reading. Fails with mgpu_fail: where, file, sample, what is wrong, what to do. */
    void (*read)(const Stream *, int64_t sample, Reading *, Item *items);
    /* Prints which file and place a column of a sample comes from: "t.csv:17: column 'age'". NULL: asks `from`. */
    void (*describe)(const Stream *, int64_t sample, int column, char *text, size_t capacity);
    /* Prints the name of a sample for predict's output and returns what it names: "file", "row". NULL: asks `from`, else it is
     * the sample's number. */
    const char *(*name)(const Stream *, int64_t sample, char *text, size_t capacity);
    /* For samples that arrive one by one, else NULL. `next` reads one more; with `wait`, it waits. Returns false if there is none
     * (yet) or after a complaint. `forget` frees the samples that have been read. */
    bool (*next)(Stream *, bool wait, char **complaint);
    void (*forget)(Stream *);
    uint64_t (*identity)(const Stream *, int64_t sample); /* `part` selects by it; NULL: the sample's number */
    void (*narrow)(Stream *, double from, double to); /* keeps the windows of text within these fractions; NULL: by identity */
    void (*close)(Stream *);                          /* frees the state; NULL: free(state) */
};

/* ---- inflow.c: text that arrives through a pipe, a terminal or any other file */
struct Inflow {
    int file;
    char *text;
    size_t begin, length, capacity; /* text[begin .. length) has been read; the next read moves it to the front */
    bool ended;
};
Inflow *mgpu_open_inflow(int file);         /* returns when a line, eight bytes or all has been read */
bool mgpu_read_inflow(Inflow *, bool wait); /* Reads more text or the end; false if none is there and wait is false. */
void mgpu_close_inflow(Inflow *);

/* the arguments of `open` */
typedef struct Opening {
    const mgpu_program *program;
    const mgpu_set *set;
    const mgpu_call *call; /* the call of the reader or stage */
    const mgpu_column *columns;
    int column_count;   /* the columns of a reader that are read */
    const char *folder; /* --data, or NULL */
    const char *where;  /* place of the call: "model.net:12: " */
    Stream *from;       /* the stream before a stage */
    Inflow *inflow;     /* source of a table that arrives; the stream owns it. NULL: a file */
    bool fresh;         /* for a table that the data block does not mention (mgpu_open_new_table) */
} Opening;
typedef Stream *OpenStream(const Opening *);
/* The stream of a stage inherits columns and all else from `from`, except functions. */
Stream *mgpu_new_stream(const Opening *, int columns);
void mgpu_close_stream(Stream *);
int mgpu_find_column(const Stream *, const char *name); /* -1 if there is none */
void mgpu_describe(const Stream *, int64_t sample, int column, char *text, size_t capacity);
const char *mgpu_name_sample(const Stream *, int64_t sample, char *text, size_t capacity); /* see Stream.name */

/* Options of a call, which mgpuc has checked; `otherwise` is the default. */
const mgpu_option *mgpu_find_option(const mgpu_call *, const char *name); /* NULL if it is not given */
double mgpu_option_number(const mgpu_call *, const char *name, double otherwise);
const char *mgpu_option_text(const mgpu_call *, const char *name, const char *otherwise);
const mgpu_input *mgpu_column_input(const Opening *, const mgpu_column *); /* NULL: only a stage reads the column */

/* ---- files.c */
/* Returns the path of `path` or `path`.gz in the folder. Fails if there is neither. The caller frees. */
char *mgpu_find_file(const char *path, const char *folder, const char *where);
const char *
mgpu_data_cure(const char *folder); /* the end of a message about a missing file: a hint at --data if it was not given, else "" */
char *mgpu_path_in(const char *folder, const char *path); /* the file may be missing; the caller frees */
struct gzFile_s *mgpu_open_packed(const char *path, const char *where, int64_t *packed); /* for gzipped and plain files */
bool mgpu_believes_unpacked(int64_t packed, int64_t bytes); /* false if `bytes` are implausibly many */
/* Fails if mgpu_believes_unpacked returns false. */
void mgpu_check_unpacked(int64_t packed, int64_t bytes, const char *path, const char *where);
typedef struct FileBytes {
    const uint8_t *data;
    int64_t bytes;
    void *map, *owned; /* mapped, allocated */
    const uint8_t *member;
    int64_t member_bytes; /* member of an archive: zip.c */
} FileBytes;
void mgpu_map_file(FileBytes *, const char *path, const char *where); /* maps a plain file */
/* Loads a whole file, unpacked if it is gzipped. Without `load`, plain files are mapped. */
void mgpu_load_file(FileBytes *, const char *path, const char *where, bool load);
void mgpu_close_file(FileBytes *);
const char *mgpu_compressed_by(const uint8_t *data, int64_t bytes); /* "compressed by zstd; unzstd unpacks it", or NULL */

/* ---- strided.c: the caller sets rank, extent and stride */
typedef struct Strided {
    int rank;
    int64_t extent[MGPU_MAX_RANK + 1], stride[MGPU_MAX_RANK + 1], at[MGPU_MAX_RANK + 1];
    int64_t offset; /* offset of the current element, in the unit of the strides */
} Strided;
void mgpu_strided_begin(Strided *, int64_t element); /* index in row-major order */
void mgpu_strided_next(Strided *);

/* ---- zip.c */
typedef struct Archive Archive;
Archive *mgpu_open_archive(const FileBytes *, const char *path, const char *where); /* the file must outlive the archive */
void mgpu_close_archive(Archive *);
int mgpu_member_count(const Archive *);
char *mgpu_member_name(const Archive *, int member);     /* the caller frees */
int mgpu_find_member(const Archive *, const char *name); /* -1 if there is none */
/* Returns a member's bytes after checking the CRC: in the file, or unpacked into *owned, which the caller frees (or NULL). */
const uint8_t *mgpu_member_bytes(const Archive *, int member, int64_t *bytes, uint8_t **owned);
void mgpu_read_member(FileBytes *, const char *name, const char *path, const char *where); /* NAME.npy of an .npz file */

/* ---- categories.c: words as classes. The training set defines them; they are saved with the weights. */
Categories *mgpu_new_categories(bool fixed); /* fixed: no table can be added */
void mgpu_free_categories(Categories *);
char *mgpu_categories_text(const Categories *); /* JSON, or NULL if there are none; the caller frees */
void mgpu_read_categories(Categories *, const char *json, const char *path); /* replaces all tables */
/* Returns the first word that does not fit into the input's number of classes, in order of appearance; -1 if all fit. */
int64_t mgpu_word_beyond(const mgpu_input *, const Words *);
/* Returns the class of each word, or MGPU_NO_LABEL. `used`: how often each word is in the set; NULL: all are used. `place` and
 * `beyond` are prefixes of messages such as "t.csv: column 'age'"; `beyond` is that of mgpu_word_beyond. */
int64_t *mgpu_classes_of_words(Categories *, const mgpu_input *, const Words *, const int64_t *used, const char *place,
                               const char *beyond, char **complaint); /* NULL after a complaint */

/* ---- words.c: distinct words in order of appearance */
typedef struct WordTable {
    Words words;
    int64_t *slots, slot_count;
} WordTable;
int64_t mgpu_intern(WordTable *, const char *text, size_t length);          /* returns its number; text NULL is a missing word */
int64_t mgpu_find_word(const WordTable *, const char *text, size_t length); /* -1 if it is not there */
void mgpu_free_words(WordTable *);

/* Adds tables of the weights of a part, for inputs that have none; training may replace them. Returns an input whose words have
 * other classes there, or NULL. */
const char *mgpu_join_categories(Categories *, const Categories *more);
void mgpu_may_renew(Categories *, const mgpu_input *); /* if the training set has other words */
/* Returns the word of each class of the input, or NULL if it has no table or its words are numbers. */
const Words *mgpu_words_of_classes(const Categories *, const mgpu_input *);

/* ---- batch.c */
bool mgpu_shapes_agree(const mgpu_input *, int rank, const int64_t *extent); /* true if such a sample fits the input */
int mgpu_reading_threads(void);                                              /* for costly samples */
void mgpu_bind_set(Dataset *, const bool *wanted, Categories *);             /* binds inputs to columns of their names */
/* The same for a set whose samples change at each use and have not been checked: only columns of numbers. */
void mgpu_bind_columns(Dataset *, const bool *wanted);
/* Returns whether all samples fit. If not, *complaint is what is wrong; the caller frees it. */
bool mgpu_check_samples(const Dataset *, char **complaint);

/* ---- the readers, by the names that models call them, and the stages that are not stages of pictures: mgpu_open_NAME */
#define MGPU_READERS(X) X(idx) X(npy) X(csv) X(cifar) X(tokens) X(characters) X(text) X(images)
#define MGPU_STAGES(X) X(part) X(pairs) X(decode)
#define MGPU_OPENS(name) OpenStream mgpu_open_##name;
MGPU_READERS(MGPU_OPENS)
MGPU_STAGES(MGPU_OPENS)
#undef MGPU_OPENS

/* ---- arrays: idx.c and npy.c read them; a stream of them (arrays.c) has one for each column */
int mgpu_decode_utf8(const uint8_t *text, int64_t bytes, int64_t i,
                     uint32_t *code); /* utf8.c: length of the character at i; 0: invalid UTF-8 */
typedef struct Vocabulary Vocabulary; /* vocabulary.c: of a call of `text` */
Vocabulary *mgpu_open_vocabulary(const mgpu_call *, const char *folder, const char *where);
/* Returns the tokens, which the caller frees; *dtype is their type, U16 or U32. */
void *mgpu_encode_text(const Vocabulary *, const uint8_t *text, int64_t bytes, uint8_t *dtype, int64_t *count);
bool mgpu_spell_token(const Vocabulary *, int64_t token, bool first, FILE *); /* prints its bytes; false: no such token */
void mgpu_close_vocabulary(Vocabulary *);
const mgpu_call *
mgpu_reader_of_text(const mgpu_program *); /* generate.c: the first call of characters, text or tokens, or NULL */
/* The stream takes the arrays; paths and `where` (for messages) are copied. */
Stream *mgpu_array_stream(const Opening *, int columns);
void mgpu_set_array(Stream *, int column, const char *name, const mgpu_input *, const Array *, const char *path,
                    const char *where);

void mgpu_set_names(Stream *, char **names); /* a file for each sample; the stream takes them, replacing those that it has */
#endif
