/* fake_cuda.h: what a test gives the fake driver (fake_cuda.c) as an image: functions of its own. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdint.h>

enum { FAKE_PARAMETERS = 24, FAKE_MAGIC = 0x656b6166 };
typedef struct FakeKernel {
    const char *name;
    void (*call)(void **parameters, unsigned blocks);
    int bytes[FAKE_PARAMETERS]; /* of each parameter; 0 ends */
} FakeKernel;
typedef struct FakeImage {
    uint32_t magic;
    int count;
    const FakeKernel *kernels;
} FakeImage;
#endif
