/* torch.h: declarations shared by the files that write a Python module for PyTorch. torch.c prints operations as lines of Python,
 * leaves.c recognises modules of torch.nn, modules.c assigns operations to modules, and classes.c writes the file. */
#ifndef MGPU_COMPILER_EXPORT_TORCH_H
#define MGPU_COMPILER_EXPORT_TORCH_H

#include "compiler/export/python.h"

typedef struct Module Module;
typedef struct Class Class;

/* One step of a module's forward: an operation, or a call of a module. */
typedef struct Item {
    const ExportedOp *op;             /* NULL: a call */
    const Module *module;             /* the module called; NULL: an operation */
    const ExportedTensor **in, **out; /* values of other items and weights of other modules, without repeats */
    int in_count, out_count;
} Item;

typedef enum ModuleForm {
    MODULE_CLASS,      /* a class with a forward */
    MODULE_HOLDER,     /* a class without forward: the module around it computes its operations, if any */
    MODULE_LIST,       /* nn.ModuleList, likewise without a forward */
    MODULE_SEQUENTIAL, /* nn.Sequential */
    MODULE_LEAF        /* a module of torch.nn */
} ModuleForm;

/* A component of the paths of weights: "h.0.up.weight" is in the modules "h", "0" and "up". */
struct Module {
    const char *name;
    Module *parent;
    Module **children;
    int child_count;
    int *variables; /* weights and states directly in it */
    int variable_count;
    ModuleForm form;
    const ExportedOp *leaf; /* the operation of a MODULE_LEAF */
    Item as_item;           /* the call of this module in the module around it */
    Item *items;
    int item_count;
};

/* The text of a constructor: words, numbers that may differ between instances of a class, and constructors of other modules. */
typedef struct ConstructorToken {
    enum { CONSTRUCTOR_TEXT, CONSTRUCTOR_NUMBER, CONSTRUCTOR_CALL, CONSTRUCTOR_LIST, CONSTRUCTOR_NEXT } kind;
    /* NUMBER: PyTorch's name for it; LIST: "nn.ModuleList" of `count` constructors, each followed by a NEXT */
    const char *text;
    int64_t number;
    Class *class; /* CALL: followed by a NUMBER for each number of the class */
    int count;
} ConstructorToken;
typedef struct ConstructorTokens {
    ConstructorToken *tokens;
    int count;
} ConstructorTokens;

/* The state while a forward is written. */
typedef struct Writing {
    const Exported *graph;
    const Module *module;
    Text *text;
    Map *names;     /* name of a value in the graph -> its Python expression */
    Map *used;      /* Python name -> Holder */
    Map *holders;   /* name of a value -> Holder */
    Map *constants; /* constants that lines read: attributes of the module */
    Map *leaving;   /* returned values, whose label in the model belongs to the caller */
    int indent, loops;
    const Place *line_shown; /* the model's line in the last comment; NULL: no comments */
} Writing;

/* ---- torch.c */
void line(Writing *, const char *pattern, ...) PRINTF(2, 3);
const char *tensor_of(Writing *, const ExportedTensor *); /* Returns a tensor even for a constant number. */
const char *label_of(const Writing *, const ExportedTensor *, const Module *made_by);
/* Names a value being computed; `again`: may take a name whose value is not read any more. */
const char *result_called(Writing *, const ExportedTensor *, const char *label, bool again);
void hold(Writing *, const ExportedTensor *const *, int count);    /* Counts the reads of the values by later lines. */
void release(Writing *, const ExportedTensor *const *, int count); /* Subtracts the reads of one line. */
void print_op(Writing *, const ExportedOp *);
const ExportedAttribute *attribute_named(const ExportedOp *, const char *name);

/* ---- leaves.c */
void add_words(ConstructorTokens *, const char *pattern, ...) PRINTF(2, 3);
void add_number(ConstructorTokens *, const char *name, int64_t number);
bool same_parts(const ConstructorTokens *, const ConstructorTokens *, bool numbers); /* compares with or without numbers */
Module *find_leaf(const Exported *, const Module *root, const ExportedOp *);         /* of torch.nn, for the operation, or NULL */
void leaf_constructor(const ExportedOp *, ConstructorTokens *);
const Module *leaf_called(const Writing *, const ExportedOp *); /* whose call computes it here, or NULL */
const ExportedTensor *leaf_input(const ExportedOp *);

/* ---- modules.c */
Module *modules_of(const Exported *);
Module *module_of_variable(const Module *root, const char *name); /* Returns the module that holds the weight. */
const Module *root_of(const Module *);
const char *module_path(const Module *);
bool is_within(const Module *, const Module *around);

/* ---- classes.c */
const char *module_access(const Writing *, const Module *); /* "self.h[0].up" */
const char *variable_access(const Writing *, int variable);
#endif
