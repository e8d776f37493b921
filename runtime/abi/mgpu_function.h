/* mgpu_function.h: MGPU_FUNCTION, which begins each small function of headers that kernels use. Compilers that optimise put it into
 * every loop that calls it, however large it is and however many do: a loop with a call in it is no vector code (measured: with two
 * powers in a loop, which gcc 12 called, an element took 61 ns; inlined, 6.5 ns). CUDA C++ has its own (mgpu_device.h). */
#ifndef MGPU_FUNCTION
#if defined __OPTIMIZE__ && !defined __OPTIMIZE_SIZE__
#define MGPU_FUNCTION static inline __attribute__((always_inline))
#else
#define MGPU_FUNCTION static inline
#endif
#endif
