/* contract_avx512.c: contractions for x86-64 with AVX-512. CMakeLists.txt says the flags; built without them, this is a
 * variant that never runs. */
#include "runtime/contract.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__FMA__)
#define MGPU_VECTOR_BYTES 64
enum { MGPU_TILE_ROWS = 14, MGPU_TILE_ROWS_NARROW = 14 };
#include "runtime/contract_product.h"

const mgpu_contract_variant mgpu_contract_avx512 = {"avx512", mgpu_multiply_phases_f32, mgpu_multiply_phases_f64};
#else
const mgpu_contract_variant mgpu_contract_avx512 = {.name = "avx512"};
#endif
