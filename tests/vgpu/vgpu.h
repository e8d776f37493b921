/* vgpu.h: the virtual GPUs: what the files of this folder share. They make libcuda.so.1 and its companions, which a program
 * opens in place of NVIDIA's (docs/vgpu.md).
 *
 * Work that is issued becomes an Op, a node of one graph of all that is to be done on all devices: streams, events, graphs and
 * collectives are edges. Nothing runs until somebody waits; then Ops run one at a time, in an order that the seed chooses among
 * those that the edges allow. When an Op runs its clock says which others certainly came before, whatever order was chosen:
 * all accesses are held against that. One lock is held by every call. */
#ifndef VGPU_H
#define VGPU_H

#include "runtime/cuda/driver.h"
#include "tests/vgpu/include/mgpu_vgpu_launch.h"

#include <pthread.h>
#include <stdbool.h>

#define VGPU_API __attribute__((visibility("default")))
enum {
    VGPU_DEVICES = 16,
    VGPU_NAME = 256,
    VGPU_FORGOTTEN = -1 /* of a call: it is to do nothing and say that it has */,
    VGPU_HANGS = -2 /* what it issues is to have no end */,
    VGPU_LATER = -1000 /* likewise; less the error that the library has when it is asked */
};

typedef struct Op Op;
typedef struct Allocation Allocation;

/* ---- machine.c: the machine that MGPU_VGPU describes */

typedef struct VirtualDevice {
    int number; /* in the file's order, which is CUDA's */
    char name[VGPU_NAME], bus[VGPU_NAME];
    CUuuid uuid;
    bool slice, hidden;  /* of the GPU at its bus (MIG); hidden: nobody has made it */
    size_t memory, used; /* bytes */
    size_t shared;       /* bytes of a block at most; 0: as its capability has it */
    int major, minor, multiprocessors;
    double bandwidth;                     /* of its memory, bytes/s */
    double link[VGPU_DEVICES], host_link; /* bytes/s; 0: no access to the other's memory */
    bool peer[VGPU_DEVICES];              /* access was enabled */
    int retained;                         /* times that its context was */
    int64_t executed, lost_after;         /* Ops; lost_after < 0: never */
    CUresult lost, failed;                /* what a lost one answers; 0, or what every call answers from now on */
    uintptr_t base, next, end;            /* addresses: reserved, of the next allocation */
    uint64_t timed;                       /* the last kernel, if it was only timed (execute.c); else 0 */
    double time_us;                       /* when its last work ended, in the machine's own time */
    double port_us;                       /* when its port is free; only with Machine.ports */
    struct CUctx_st *context;
} VirtualDevice;

typedef enum { ORDER_RANDOM, ORDER_ISSUED } Order;
typedef struct Fault { /* of `call`, or of kernel `call` */
    char call[256];
    int64_t number, seen;
    /* of a kernel, if somebody asks for the truth */
    struct {
        const char *operation;
        int device;
        int64_t runs;
    } * by;
    int by_count;
    int error, line;
    bool all, later; /* all: of the others, too; later: the call does not return the error */
} Fault;
typedef struct Corruption {
    int from, to, line;   /* -1: the host */
    int64_t number, seen; /* 0: every transfer */
    char buffer[64];      /* of those that end in it; empty: of all */
} Corruption;

typedef enum Slow { SLOW_KERNELS /* of the model */, SLOW_CUBLASLT, SLOW_CUDNN, SLOWS } Slow;
typedef struct Machine {
    VirtualDevice device[VGPU_DEVICES];
    int count;
    int visible[VGPU_DEVICES], visible_count;
    int version; /* of CUDA, as the driver has it: 12040 is 12.4 */
    uint64_t seed;
    Order order;
    double delay;    /* seconds that some calls take, at most */
    double deadline; /* seconds that the program may go on for once something has gone wrong; 0: as long as it likes */
    char *truth;     /* a file: which operation a kernel fault has hit; NULL: nobody asks */
    int nccl;        /* its version, as it says it: 22005 is 2.20.5 */
    double patience; /* seconds that a waiting thread gives others before nothing is taken to go on */
    Fault *faults;
    int fault_count;
    Fault *kernel_faults;
    int kernel_fault_count;
    Corruption *corruptions;
    int corruption_count;
    uint32_t *refused;
    int refused_count;  /* epilogues that cuBLASLt has no algorithm for */
    bool ports, bridge; /* copies from a GPU to others take turns; those between the host and all GPUs */
    double bridge_us;   /* when that is free */
    bool wide_biases;   /* it takes f32 biases with results of 16 bits */
    struct {
        char function[256];
        int count;
    } * registers;
    int registers_count;
    struct {
        const char *bytes;
        size_t length;
    } * cubins;
    int cubin_count;
    struct {
        char function[64];
        double times;
    } slow_functions[16];
    int slow_function_count; /* kernels whose names begin so */
    double slow[SLOWS];      /* how much longer than else what of a name takes; 0: no longer */
    bool quick_ptx;          /* accesses of kernels in PTX are not checked */
    /* of NVLink, as NCCL uses them where NCCL_NVLS_ENABLE is not 0 */
    enum { SWITCHES_WORK, SWITCHES_FAIL, SWITCHES_CHANGE } switches;
    int peers; /* others that a device may have access to at a time; 0: any number */
    struct {
        char call[64];
        double seconds;
    } taking[4];
    int taking_count;
    bool calls_wait; /* calls that allocate, free, load or instantiate wait until all GPUs of the process are idle */
} Machine;
extern VGPU_API Machine vgpu_machine;

VGPU_API void vgpu_read_machine(void);                            /* once; ends the process with a message if the file is wrong */
VGPU_API int vgpu_fault(const char *call);                        /* 0, or the error that this call is to answer */
VGPU_API int vgpu_kernel_fault(const char *function, const Op *); /* the operation that runs it */
/* of this transfer; NULL: it arrives as it was */
VGPU_API const Corruption *vgpu_corruption(int from, int to, const char *buffer);
VGPU_API uint64_t vgpu_random(void);
VGPU_API double vgpu_slowness(Slow); /* how many times as long as else these take */
double vgpu_slowness_of(const char *function);
const char *vgpu_error_name(int error);

/* of a thread, as the machine file or a cubin that it names has it; 0: they do not say */
int vgpu_registers(const char *function);

/* ---- limits.c */
enum { VGPU_FUNC_ATTRIBUTE_NUM_REGS = 4 };           /* CU_FUNC_ATTRIBUTE_NUM_REGS, that the runtime does not ask for */
size_t vgpu_most_shared(const VirtualDevice *);      /* bytes of a block, static and dynamic, for who asks */
int vgpu_most_threads(CUfunction);                   /* of a block */
bool vgpu_become(VirtualDevice *, const char *card); /* false: there is no such card */

/* ---- report.c: violations */

/* Prints it and keeps it; of one kind and culprit once. device: from now on every call for it answers `error`; NULL: of no
 * one device. */
VGPU_API void vgpu_violation(VirtualDevice *, int error, const char *kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void vgpu_take_time(const char *call);            /* as the machine says, without the lock: others may call at the same time */
void vgpu_begin_deadline(const char *what);       /* something went wrong */
VGPU_API const char *vgpuViolation(int index);    /* "kind: text", or NULL after the last */
VGPU_API const char *vgpu_keep(const char *text); /* an equal text that stays, the same for all that are equal */

/* ---- handles.c */
bool vgpu_is_handle(const void *); /* of a stream, an event, a graph that there is */
void vgpu_add_handle(const void *), vgpu_drop_handle(const void *);

/* ---- clock.c: what comes before what */

/* Ops of one chain are in order: those of a stream, of a path of a graph. at[chain]: how many of them came before */
typedef struct Clock {
    int references, count;
    uint32_t at[];
} Clock;
int vgpu_new_chain(void);
void vgpu_free_chain(int chain);
uint32_t vgpu_tick(int chain);
Clock *vgpu_join(Clock *a, const Clock *b); /* takes a, which nobody else may have; a or b may be NULL */
Clock *vgpu_share(Clock *);
void vgpu_drop(Clock *);
static inline bool vgpu_before(int chain, uint32_t time, const Clock *c) { return chain < c->count && time <= c->at[chain]; }

/* ---- history.c: accesses of Ops to bytes of an allocation */

/* who did it: the Op may be gone. Its texts stay (vgpu_keep) */
typedef struct Actor {
    int chain;
    uint32_t time;
    const char *operation, *what;
} Actor;
typedef struct Interval {
    uintptr_t begin, end;
    bool written;
    Actor writer;
    const char *name; /* of the buffer as it was written; NULL: not told */
    Actor *readers;
    int reader_count;
} Interval;
typedef struct History {
    Interval *at;
    int count;
} History; /* in order, without overlap */
void vgpu_access_bytes(Allocation *, Op *, uintptr_t begin, uintptr_t end, bool writes, const char *name);
/* all of it, last; or nobody knows */
bool vgpu_written_by(const Allocation *, const char *operation, uintptr_t begin, uintptr_t end);
void vgpu_free_history(History *);

/* ---- memory.c */

/* What is known of 4 bytes, or of one. Serials number blocks of all launches, and copies; 0: never. */
typedef struct Cell {
    uint32_t write_serial, write_time, read_serial, read_time;
    uint16_t write_thread, read_thread; /* and flags */
} Cell;
typedef struct Cells {
    uintptr_t base;
    size_t bytes;
    Cell *words, *parts; /* parts: of the bytes of words that are split */
    bool unknown;        /* what was written before, or by the host, is not */
} Cells;

struct Allocation {
    VirtualDevice *device; /* NULL: page-locked memory of the host */
    uintptr_t base;
    size_t bytes, mapped;
    bool freed, mapped_apart; /* mapped_apart: of virtual memory management, as NCCL's is; cuMemFree does not take it */
    Cells cells;
    History history;
    Allocation *next;
};
VGPU_API Allocation *vgpu_find(uintptr_t address); /* of a device or page-locked, freed ones too; NULL: neither */
VGPU_API CUresult vgpu_allocate(VirtualDevice *, size_t bytes, uintptr_t *address);
CUresult vgpu_allocate_host(size_t bytes, void **memory);
VGPU_API CUresult vgpu_free(uintptr_t address, bool host);
VirtualDevice *vgpu_device_of(uintptr_t address);               /* in whose part of the address space it lies */
bool vgpu_describe(uintptr_t address, char *text, size_t room); /* "byte 4 after the end of ..." */
void vgpu_make_cells(Cells *, uintptr_t base, size_t bytes);
void vgpu_free_cells(Cells *);
void vgpu_forget_writes(void); /* of all that is allocated: from now on others are seen */

/* ---- check.c: loads and stores of kernels; bytes that copies write */

typedef struct mgpu_vgpu_launch Launch;
int vgpu_check_access(Launch *, const void *address, unsigned bytes, int how, const void *place);
void vgpu_begin_launch(Op *, Launch *);
void vgpu_begin_block(Launch *);
void vgpu_mark(Op *, uintptr_t begin, size_t bytes, bool writes); /* what a copy touches */

/* ---- count.c: what kernels in PTX ask memory for */

bool vgpu_counts(void), vgpu_leaves_out(void); /* somebody asks; most is left out */
bool vgpu_begin_count(const Op *, Launch *);   /* false: the launch is left out */
void vgpu_end_count(void), vgpu_write_counts(void);

/* ---- statics.c: static shared memory of an image's kernels; bytes */

typedef struct Statics Statics;
Statics *vgpu_read_statics(const void *image); /* NULL: the image has no relocations */
void vgpu_free_statics(Statics *);
size_t vgpu_static_shared(Statics *, const char *function);

/* ---- module.c */

struct CUfunc_st {
    struct CUmod_st *module;
    const char *name;
    mgpu_vgpu_entry *run;
    const unsigned *bytes;
    int parameters;
    size_t static_shared, most_shared; /* bytes; most: of dynamic shared memory */
    unsigned most_threads;             /* of a block: .maxntid of PTX */
    int registers;                     /* of a thread; 0: nobody knows */
};
struct CUmod_st {
    struct CUctx_st *context;
    void *handle;
    int file;
    char path[64];
    uintptr_t base, begin, end;        /* where it is */
    bool checked;                      /* built to be asked about every access */
    Cells dynamic_cells, static_cells; /* of its shared memory */
    Statics *statics;
    struct CUfunc_st **functions;
    int count;
    struct CUmod_st *next;
};
extern bool vgpu_all_checked, vgpu_some_checked; /* every, one module that was loaded is */
CUresult vgpu_load_module(struct CUctx_st *, const void *image, struct CUmod_st **, char *log, size_t room);
void vgpu_unload_module(struct CUmod_st *);
CUresult vgpu_find_function(struct CUmod_st *, const char *name, CUfunction *);
bool vgpu_run_kernel(Op *);                                  /* false: it has no end */
void vgpu_place(const void *place, char *text, size_t room); /* file and line of an instruction, if they can be found */

/* ---- stream.c: Ops and their order */

/* vgpuDeclare: what an operation of the program is called, and what it touches */
typedef struct Label {
    int references;
    const char *name;
    CudaRange *ranges;
    int count; /* < 0: not told */
} Label;

typedef enum { OP_LAUNCH, OP_COPY, OP_SET, OP_JOIN /* does nothing */, OP_COLLECTIVE, OP_LIBRARY, OP_HOST } OpKind;
typedef struct KernelCall {
    CUfunction function;
    unsigned grid[3], block[3], shared_bytes;
    bool dependent;        /* it may begin before the kernel before it has ended */
    unsigned char *values; /* of the parameters, one after the other */
} KernelCall;
typedef struct Copy {
    uintptr_t to, from;
    size_t bytes;
    unsigned char *kept;
    uint64_t hash;
    bool hashed;
} Copy;
typedef struct Set {
    uintptr_t to;
    uint32_t value;
    int width;
    size_t count;
} Set;
typedef struct HostCall {
    void (*function)(void *);
    void *context;
} HostCall;
typedef struct LibraryCall {
    void (*run)(Op *);
    void *data;
    size_t bytes;
} LibraryCall; /* data: its own */
/* One sum over the members of a communicator, of this process; it runs when all of its Ops can. */
typedef struct Gathering {
    int members, came, ready;
    /* once they can; false: it is to wait for other processes, until vgpu_gather_on. NULL: there are none */
    bool (*begin)(struct Gathering *);
    bool away; /* it waits for them */
    Op *op[VGPU_DEVICES];
    const char *name;
    void (*run)(struct Gathering *);
    void *context;
} Gathering;

/* one member's call of a collective that a graph has: each launch begins it anew */
typedef struct KeptPart {
    Gathering *(*launch)(struct KeptPart *, int *member); /* NULL: it may not be begun */
    void (*drop)(struct KeptPart *);
} KeptPart;

/* what is to be done, apart from when: of an Op, and of a node of a graph */
typedef struct Work {
    OpKind kind;
    VirtualDevice *device;
    const char *what; /* "k12", "cuMemcpyHtoDAsync" */
    Label *label;
    union {
        KernelCall call;
        Copy copy;
        Set set;
        LibraryCall library;
        HostCall host;
        struct {
            Gathering *gathering;
            int member;
            uintptr_t from, to;
            size_t bytes;
            KeptPart *kept;
        } part;
    };
} Work;

struct Op {
    Work work;
    int references, unmet;
    bool done, hangs; /* hangs: it runs and has no end */
    uint64_t again;   /* a kernel's blocks that wait for memory that another kernel is to write; 0: none */
    Op **before;
    int before_count;
    Op **after;
    int after_count;
    int chain;
    uint32_t time;
    Clock *host, *clock; /* what the host knew when it was issued; what came before, this too, when it is done */
    double end_us;
    Op *previous, *next; /* of all that are not done */
};

struct CUctx_st {
    VirtualDevice *device;
};
struct CUgraph_st; /* graph.h */
struct CUstream_st {
    VirtualDevice *device;
    int number, chain;
    Op *last;
    Label *label;
    struct CUgraph_st *capture; /* NULL: none */
    bool origin;                /* where the capture began */
    int *tips;
    int tip_count; /* nodes that the next one follows */
    struct CUstream_st *next;
};
struct CUevent_st {
    VirtualDevice *device;
    unsigned flags;
    Op *op;      /* NULL: not recorded yet */
    int capture; /* recorded while a stream was captured: its number; else 0 */
    int *tips;
    int tip_count;
};

extern VGPU_API pthread_mutex_t vgpu_lock;
/* After the stream's last Op and those in `more`. Takes the work. */
/* takes the work but for its label and device, which are the stream's */
VGPU_API CUresult vgpu_issue_or_capture(CUstream, Work);
/* graph.c: may this thread make it, though a stream is captured? `calls wait`: it may need idle GPUs */
VGPU_API CUresult vgpu_check_capture(const char *call);
VGPU_API void vgpu_gather_on(Gathering *); /* what it has waited for is there */
VGPU_API Op *vgpu_issue(CUstream, Work, Op *const *more, int count);
Op *vgpu_issue_node(int chain, VirtualDevice *, Work, Op *const *before, int count);
void vgpu_follow(CUstream, Op *); /* it is the stream's last now */
Op *vgpu_hold(Op *);
void vgpu_let_go(Op *);
bool vgpu_finish(Op *);                            /* runs until it is done, and the host knows; false: it never will be */
VGPU_API bool vgpu_finish_device(VirtualDevice *); /* all of its Ops */
bool vgpu_finish_issued(void);                     /* what has been issued to any device so far; the host learns nothing of it */
void vgpu_advance(int ops);                        /* runs some */
extern _Thread_local bool vgpu_in_host_function;   /* execute.c: of cuLaunchHostFunc, which the thread runs with the lock */
bool vgpu_execute(Op *);                           /* execute.c: does its work; false: that has no end */
void vgpu_issue_copy(Copy *);                      /* execute.c: what a copy does when it is issued */
VGPU_API void vgpu_touch(Op *, uintptr_t begin, size_t bytes, bool writes);         /* execute.c: what other than kernels does */
VGPU_API void vgpu_carry(const Op *, int from, int to, uintptr_t at, size_t bytes); /* execute.c: over a link */
VGPU_API const char *vgpu_buffer_name(const Op *, uintptr_t at); /* of what the operation writes there; NULL: not told */
VGPU_API Label *vgpu_share_label(Label *);
VGPU_API void vgpu_drop_label(Label *);
VGPU_API Actor vgpu_actor(const Op *);
VGPU_API const char *vgpu_name(const Actor *, char *text, size_t room); /* "d0.c17 (k12)" */
bool vgpu_pending_write(uintptr_t begin, size_t bytes), vgpu_pending_read(uintptr_t begin, size_t bytes);
void vgpu_free_work(Work *);
size_t vgpu_parameter_bytes(CUfunction); /* of KernelCall.values */

/* ---- host.c */

Clock *vgpu_host_clock(void); /* what the calling thread knows to be done; shared */
void vgpu_know(const Op *);   /* it has learnt that this is */
#endif
