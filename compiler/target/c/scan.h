/* scan.h: what the two texts of a scan have in common: host/scan.c writes it as host C, cuda/scan.c as CUDA C. */
#ifndef MGPU_SCAN_TEXT_H
#define MGPU_SCAN_TEXT_H

#include "compiler/kernel/phase.h"
#include "compiler/target/c/emit.h"

typedef struct ScanWriter ScanWriter;
struct ScanWriter {
    Printer print;            /* lines and names */
    const Kernel *kernel;
    const Scan *scan;
    const char **name;        /* of the pointers, by the tensors' ids */
    /* how the language calls a kernel of the body, copies a tensor to another one, fills one with a number */
    void (*call)(ScanWriter *, int number);
    void (*copy)(ScanWriter *, const Tensor *to, const Tensor *from);
    void (*fill)(ScanWriter *, const Tensor *to, double value);
};

/* takes the names of the writer's kernel: those that all scans use, and the language's own */
void scan_begin_text(ScanWriter *, const char *const *own, int own_count);
const char *scan_pointer(const ScanWriter *, const Tensor *);     /* its name */
const char *scan_new_pointer(ScanWriter *, const Tensor *);
const Tensor *scan_argument(const Kernel *, int);                 /* what is read, then what is written */
int64_t scan_elements(const Tensor *);
void scan_print_buffers(ScanWriter *);                            /* pointers to what is in `work` */
void scan_print_initial(ScanWriter *);                            /* carries before the first step */
void scan_print_steps(ScanWriter *, const char *after);           /* the loop; `after`: its last line, or NULL */
bool scan_print_last(ScanWriter *);                               /* carries after the last step; false: there are none */

/* gives the kernels of the body their texts, and the scan its own: with EMIT_OWN as its name */
typedef void PrintKernel(const Kernel *, Text *);
void scan_print_parts(Kernel *, PrintKernel *nest, PrintKernel *loop);
Kernel scan_part(const Kernel *, int call); /* what is called, as k12_0 ... of k12 */
#endif
