/* pickle.h: reads Python's pickles as plain values. Names in a pickle are never resolved, and nothing is called. */
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
    PICKLED_LIST, /* also tuples and sets */
    PICKLED_DICT, /* items: key, value, key, value, ... */
    PICKLED_NAME, /* a class or function: text is "module.name" */
    PICKLED_OWN   /* made by a hook, which sets `data` */
} PickledKind;
typedef struct Pickled Pickled;
struct Pickled {
    PickledKind kind;
    bool seen; /* visited by a traversal: values may contain themselves */
    int64_t whole;
    double real;
    const char *text; /* TEXT, BYTES, NAME; ends with a NUL */
    int64_t length;   /* bytes of text, or number of items */
    Pickled **items;
    int64_t capacity;
    void *data;
};

typedef struct Pickle Pickle;
struct Pickle { /* the caller sets path, hooks and context */
    const char *path;
    Pickled *(*call)(Pickle *, const char *name,
                     const Pickled *arguments);          /* returns the result of name(arguments), or NULL to refuse the call */
    Pickled *(*persistent)(Pickle *, const Pickled *id); /* returns an object stored outside of the pickle */
    void *context;
    struct PickleMemory *memory; /* owns all values */
};
/* Returns the value of the pickle at *at and moves *at past it. Reads protocols 0 to 5. Errors end the program; a refused call is
 * named. Memory and time are linear in the bytes of the pickle. */
Pickled *mgpu_read_pickle(Pickle *, const uint8_t **at, const uint8_t *end);
void mgpu_free_pickled(Pickle *);
Pickled *mgpu_new_pickled(Pickle *, PickledKind);
void *mgpu_pickle_memory(Pickle *, size_t bytes);                         /* zeroed; freed with the values */
const Pickled *mgpu_pickled_item(const Pickled *list, int64_t i);         /* NULL if it is no list or too short */
const Pickled *mgpu_pickled_member(const Pickled *dict, const char *key); /* NULL if it is no dictionary or lacks the key */
#endif
