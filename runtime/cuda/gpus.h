/* gpus.h: which GPUs there are, and which of them --devices means. */
#ifndef MGPU_GPUS_H
#define MGPU_GPUS_H

#include "runtime/cuda/driver.h"

#include <stdbool.h>

enum { MGPU_OLDEST_GPU = 8 }; /* compute capability: asynchronous copies and matmuls of bf16 in tensor cores came with 8.0 */

/* A slice of a GPU that is divided (MIG: a GPU instance with its compute instance) is a GPU of its own: others have its bus, none its UUID. */
typedef struct Gpu {
    char name[96];
    char uuid[48];       /* "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", of a slice "MIG-..." */
    char bus[24];        /* "0000:65:00.0" */
    char place[48];      /* for messages: the bus; of a slice with the beginning of its UUID */
    int64_t memory;      /* bytes */
    int major, minor;    /* compute capability */
    bool slice;          /* of the driver's; of NVML's, which lists whole GPUs: it is divided */
    CUdevice device;     /* the driver's */
} Gpu;
typedef struct GpuList {
    Gpu *gpus;
    int count;
    char *note;          /* what users should know of their order, or NULL */
} GpuList;
void mgpu_free_gpus(GpuList *);

/* nvml.c: in the order of nvidia-smi, without a context. NULL, or why not, for the caller to free; `device` is not set */
char *mgpu_nvml_gpus(GpuList *);
/* gpus.c: those that the driver shows, in the order of nvidia-smi, or in that of CUDA_VISIBLE_DEVICES where it is set. NULL,
 * or why there are none, for the caller to free. */
char *mgpu_find_gpus(GpuList *, const CudaDriver **);
/* the same for who only looks, at the least price: by NVML if that will do, as it does where no GPU is divided. `device` may not be set */
char *mgpu_list_gpus(GpuList *);
char *mgpu_no_gpu(void);                             /* why the driver shows none, for the caller to free */
char *mgpu_shown_by(void);                           /* ", as CUDA_VISIBLE_DEVICES is '2,0'", or "", likewise */
void mgpu_bus_text(const char *from, char to[24]);   /* "00000000:65:00.0" -> "0000:65:00.0"; "": it is no bus id */

/* select.c: what --devices says: how many devices of which kind, and which GPUs. "2", "host:3", "cuda:2", "cuda:0,2",
 * "cuda:0x4" (four devices on GPU 0), "cuda:GPU-8932f937", "cuda:MIG-..." (a slice), "cuda:0000:65:00.0" */
typedef struct DeviceList {
    char kind[16];                     /* "": any */
    int count;                         /* of devices; 0: as many as the program was made for */
    char **gpus;                       /* [count]: an index, UUID or bus id; NULL: the first ones */
    bool compiled;                     /* it is what mgpuc was told, for a run that says nothing */
} DeviceList;
bool mgpu_names_gpu(const char *text); /* "0x4", "GPU-...", "MIG-...", "0000:65:00.0": no count */
char *mgpu_read_devices(const char *text, DeviceList *); /* NULL, or what is wrong, for the caller to free */
void mgpu_free_devices(DeviceList *);
/* the GPUs of devices [first, end): those that --devices names, else from `place` on; ends the program if there is none like that */
void mgpu_select_gpus(const GpuList *, const DeviceList *, int first, int end, int place, const Gpu **chosen);
#endif
