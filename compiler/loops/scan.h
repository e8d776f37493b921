/* scan.h: what the code of a scan has in common for the targets: host/scan.c, cuda/scan.c. */
#ifndef MGPU_SCAN_TEXT_H
#define MGPU_SCAN_TEXT_H

#include "compiler/kernel/phase.h"
#include "compiler/loops/lower.h"

typedef struct ScanLowering ScanLowering;
struct ScanLowering {
    Lowering base; /* code and names */
    const Kernel *kernel;
    const Scan *scan;
    const Term **name; /* the pointers, by the tensors' ids */
    /* how the language calls a kernel of the body, copies a tensor to another one, fills one with a number */
    void (*call)(ScanLowering *, int number);
    void (*copy)(ScanLowering *, const Tensor *to, const Tensor *from);
    void (*fill)(ScanLowering *, const Tensor *to, double value);
};

/* takes the names of the writer's kernel: those that all scans use, and the language's own */
void scan_reserve_names(ScanLowering *, const char *const *own, int own_count);
const Term *scan_pointer(const ScanLowering *, const Tensor *);
const Term *scan_new_pointer(ScanLowering *, const Tensor *);
const Tensor *scan_argument(const Kernel *, int); /* what is read, then what is written */
int64_t scan_elements(const Tensor *);
void scan_declare_buffers(ScanLowering *); /* pointers to what is in `work` */
void scan_add_initial(ScanLowering *);     /* carries before the first step */
void scan_open_steps(ScanLowering *);      /* the loop; its last lines may follow, then code_close */
bool scan_add_last(ScanLowering *);        /* carries after the last step; false: there are none */

/* gives the kernels of the body their code, and the scan its own */
typedef const Code *LowerKernel(const Kernel *);
void scan_lower_parts(Kernel *, LowerKernel *nest, LowerKernel *loop);
Kernel scan_part(const Kernel *, int call); /* what is called, as k12_0 ... of k12 */
#endif
