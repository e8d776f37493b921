/* torch.h: what the files share that write a module of PyTorch. torch.c prints operations as lines of Python, leaves.c knows
 * modules of torch.nn, modules.c says which operations a module of the network computes, classes.c writes the file. */
#ifndef MGPU_COMPILER_EXPORT_TORCH_H
#define MGPU_COMPILER_EXPORT_TORCH_H

#include "compiler/export/python.h"

typedef struct Module Module;
typedef struct Class Class;

/* What a line of a module's forward computes: an operation, or what a module does. */
typedef struct Item {
    const ExportedOp *op;             /* NULL: the module's call */
    const Module *module;             /* NULL: an operation */
    const ExportedTensor **in, **out; /* values of other items and weights of other modules, each once */
    int in_count, out_count;
} Item;

typedef enum ModuleForm {
    MODULE_CLASS,      /* a class with a forward */
    MODULE_HOLDER,     /* a class without: its operations, if any, are those of the module around it */
    MODULE_LIST,       /* nn.ModuleList: likewise */
    MODULE_SEQUENTIAL, /* nn.Sequential */
    MODULE_LEAF        /* a module of torch.nn */
} ModuleForm;

/* A part of the path of weights: of "h.0.up.weight" the modules "h", "0" and "up". */
struct Module {
    const char *name;
    Module *parent;
    Module **children;
    int child_count;
    int *variables; /* of its own */
    int variable_count;
    ModuleForm form;
    const ExportedOp *leaf; /* the operation of a MODULE_LEAF */
    Item as_item;           /* of the module around it */
    Item *items;
    int item_count;
};

/* The text of a constructor: words, numbers that may differ where a class is used several times, constructors of other modules.
 */
typedef struct Part {
    enum { PART_TEXT, PART_NUMBER, PART_CALL, PART_LIST, PART_NEXT } kind;
    const char *text; /* NUMBER: what PyTorch calls it; LIST: "nn.ModuleList", of `count` constructors with a NEXT after each */
    int64_t number;
    Class *class; /* CALL: NUMBERs follow, one for each of the class */
    int count;
} Part;
typedef struct Parts {
    Part *parts;
    int count;
} Parts;

/* The text of one forward. */
typedef struct Writing {
    const Exported *graph;
    const Module *module;
    Text *text;
    Map *names;     /* what values are called, by their names in the graph */
    Map *used;      /* names of Python -> Holder */
    Map *holders;   /* values -> Holder */
    Map *constants; /* that the lines read, as attributes of the module */
    Map *leaving;   /* values that the module returns: the model's names of them are from outside */
    int indent, loops;
    const Place *said; /* the line of the model that was said last */
} Writing;

/* ---- torch.c */
void line(Writing *, const char *pattern, ...) PRINTF(2, 3);
const char *tensor_of(Writing *, const ExportedTensor *); /* where a number will not do */
const char *label_of(const Writing *, const ExportedTensor *, const Module *made_by);
/* the name of a value that is made now; `again`: one will do whose value no line to come reads */
const char *result_called(Writing *, const ExportedTensor *, const char *label, bool again);
void hold(Writing *, const ExportedTensor *const *, int count);    /* lines to come read them */
void release(Writing *, const ExportedTensor *const *, int count); /* one of these lines has done so */
void print_op(Writing *, const ExportedOp *);
const ExportedAttribute *attribute_named(const ExportedOp *, const char *name);

/* ---- leaves.c */
void add_words(Parts *, const char *pattern, ...) PRINTF(2, 3);
void add_number(Parts *, const char *name, int64_t number);
bool same_parts(const Parts *, const Parts *, bool numbers);                 /* with or without numbers */
Module *find_leaf(const Exported *, const Module *root, const ExportedOp *); /* that torch.nn has for the operation, or NULL */
void leaf_constructor(const ExportedOp *, Parts *);
const Module *leaf_called(const Writing *, const ExportedOp *); /* that computes it here; NULL: none */
const ExportedTensor *leaf_input(const ExportedOp *);

/* ---- modules.c */
Module *modules_of(const Exported *);
Module *module_of_variable(const Module *root, const char *name); /* that a weight is in */
const Module *root_of(const Module *);
const char *module_path(const Module *);
bool is_within(const Module *, const Module *around);

/* ---- classes.c */
const char *module_access(const Writing *, const Module *); /* "self.h[0].up" */
const char *variable_access(const Writing *, int variable);
#endif
