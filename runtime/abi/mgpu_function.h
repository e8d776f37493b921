/* mgpu_function.h: MGPU_FUNCTION, which begins each small function of headers that kernels use. Optimizing compilers inline it
 * into every loop, whatever its size: a loop with a call is not vectorized (measured with two powers in a loop, which gcc 12
 * called: 61 ns per element; inlined 6.5 ns). CUDA C++ has its own definition (mgpu_device.h). */
#ifndef MGPU_FUNCTION
#if defined __OPTIMIZE__ && !defined __OPTIMIZE_SIZE__
#define MGPU_FUNCTION static inline __attribute__((always_inline))
#else
#define MGPU_FUNCTION static inline
#endif
#endif
