/* scan.h: lowers a scan to code: what the targets have in common (host/scan.c, cuda/scan.c). */
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
    /* The target's functions that emit a call of a kernel of the body, a copy of a tensor, a fill with a number. */
    void (*call)(ScanLowering *, int number);
    void (*copy)(ScanLowering *, const Tensor *to, const Tensor *from);
    void (*fill)(ScanLowering *, const Tensor *to, double value);
};

/* Reserves the names that the scan's code uses: those of all targets, and `own`. */
void scan_reserve_names(ScanLowering *, const char *const *own, int own_count);
const Term *scan_pointer(const ScanLowering *, const Tensor *);
const Term *scan_new_pointer(ScanLowering *, const Tensor *);
const Tensor *scan_argument(const Kernel *, int); /* tensors that are read, then those that are written */
int64_t scan_elements(const Tensor *);
void scan_declare_buffers(ScanLowering *); /* pointers to buffers in `work` */
void scan_add_initial(ScanLowering *);     /* carries before the first step */
void scan_open_steps(ScanLowering *);      /* opens the loop; the caller closes it by code_close */
bool scan_add_last(ScanLowering *);        /* carries after the last step; false: there are none */

/* Lowers the kernels of the body, and the scan's loop. */
typedef const Code *LowerKernel(const Kernel *);
void scan_lower_parts(Kernel *, LowerKernel *nest, LowerKernel *loop);
Kernel scan_part(const Kernel *, int call); /* the kernel of a call, with a name such as k12_0 */
#endif
