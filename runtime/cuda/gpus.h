/* gpus.h: the GPUs of the machine, and the ones that --devices selects. */
#ifndef MGPU_GPUS_H
#define MGPU_GPUS_H

#include "runtime/cuda/driver.h"

#include <stdbool.h>

enum { MGPU_OLDEST_GPU = 8 }; /* compute capability: asynchronous copies and bf16 in tensor cores exist since 8.0 */

/* A MIG slice (a GPU instance with its compute instance) counts as a GPU. Slices of a GPU share its bus id, but have UUIDs of
 * their own. */
typedef struct Gpu {
    char name[96];
    char uuid[48];    /* "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", of a slice "MIG-..." */
    char bus[24];     /* "0000:65:00.0" */
    char place[48];   /* for messages: the bus id; for a slice also the beginning of its UUID */
    int64_t memory;   /* bytes */
    int major, minor; /* compute capability */
    bool slice;       /* from the driver: it is a slice; from NVML, which lists whole GPUs: it is divided into slices */
    CUdevice device;  /* as the driver numbers it */
} Gpu;
typedef struct GpuList {
    Gpu *gpus;
    int count;
    char *remark; /* a remark on their order for users, or NULL */
} GpuList;
void mgpu_free_gpus(GpuList *);

/* nvml.c: Lists the GPUs in the order of nvidia-smi, without creating a context; `device` is not set. Returns NULL, or the reason
 * of failure, which the caller frees. */
char *mgpu_nvml_gpus(GpuList *);
/* gpus.c: Lists the GPUs that the driver shows, in the order of nvidia-smi, or of CUDA_VISIBLE_DEVICES if it is set. Returns
 * NULL, or why there are none, which the caller frees. */
char *mgpu_find_gpus(GpuList *, const CudaDriver **);
/* Likewise, as cheaply as possible: by NVML if no GPU is divided. `device` may not be set. */
char *mgpu_list_gpus(GpuList *);
char *mgpu_no_gpu(void);                           /* why the driver shows none; the caller frees it */
char *mgpu_visible_by(void);                       /* ", as CUDA_VISIBLE_DEVICES is '2,0'", or ""; the caller frees it */
void mgpu_bus_text(const char *from, char to[24]); /* "00000000:65:00.0" -> "0000:65:00.0"; "" if it is no bus id */

/* select.c: the value of --devices: how many devices of which kind, and which GPUs. "2", "host:3", "cuda:2", "cuda:0,2",
 * "cuda:0x4" (four devices on GPU 0), "cuda:GPU-8932f937", "cuda:MIG-..." (a slice), "cuda:0000:65:00.0". */
typedef struct DeviceList {
    char kind[16]; /* "": any */
    int count;     /* of devices; 0: as many as the program was compiled for */
    char **gpus;   /* [count]: an index, UUID or bus id; NULL: the first ones */
    bool compiled; /* it is mgpuc's --devices, for runs without one */
} DeviceList;
bool mgpu_names_gpu(const char *text);                   /* "0x4", "GPU-...", "MIG-...", "0000:65:00.0", but not a count */
char *mgpu_read_devices(const char *text, DeviceList *); /* NULL, or what is wrong, which the caller frees */
void mgpu_free_devices(DeviceList *);
/* Chooses the GPUs of devices [first, end): those that --devices names, else those from `place` on. Ends the program if one does
 * not exist. */
void mgpu_select_gpus(const GpuList *, const DeviceList *, int first, int end, int place, const Gpu **chosen);
#endif
