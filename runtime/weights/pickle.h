/* pickle.h: pickles of Python as values, and nothing but values: no name that a pickle holds is looked up, nothing is called. */
#ifndef MGPU_WEIGHTS_PICKLE_H
#define MGPU_WEIGHTS_PICKLE_H

#include "runtime/base/base.h"

typedef enum PickledKind {
    PICKLED_NONE,
    PICKLED_BOOL,
    PICKLED_WHOLE,
    PICKLED_REAL,
    PICKLED_TEXT,
    PICKLED_BYTES,
    PICKLED_LIST, /* or tuple, set */
    PICKLED_DICT, /* items: key, value, key, value, ... */
    PICKLED_NAME, /* of a class or function: text "module.name" */
    PICKLED_OWN   /* what a hook has made: data */
} PickledKind;
typedef struct Pickled Pickled;
struct Pickled {
    PickledKind kind;
    bool seen; /* for those who walk: values may hold themselves */
    int64_t whole;
    double real;
    const char *text; /* TEXT, BYTES, NAME; ends with a NUL */
    int64_t length;   /* of text, or of items */
    Pickled **items;
    int64_t room;
    void *data;
};

typedef struct Pickle Pickle;
struct Pickle { /* begins with path, hooks and context alone */
    const char *path;
    Pickled *(*call)(Pickle *, const char *name,
                     const Pickled *arguments);          /* what name(arguments) would be; NULL: it is refused */
    Pickled *(*persistent)(Pickle *, const Pickled *id); /* of something that is beside the pickle */
    void *context;
    struct PickleRoom *room; /* owns all values */
};
/* The value of the pickle that begins at *at, which then is behind it. Protocols 0 to 5. Errors end the program: what would be
 * called is named. Memory and time grow with the bytes of the pickle alone. */
Pickled *mgpu_read_pickle(Pickle *, const uint8_t **at, const uint8_t *end);
void mgpu_free_pickled(Pickle *);
Pickled *mgpu_new_pickled(Pickle *, PickledKind);
void *mgpu_pickle_memory(Pickle *, size_t bytes);                         /* zeros, as long as the values */
const Pickled *mgpu_pickled_item(const Pickled *list, int64_t i);         /* NULL: it is no list, or shorter */
const Pickled *mgpu_pickled_member(const Pickled *dict, const char *key); /* NULL: it is no dictionary, or has none */
#endif
