/* contract_avx2.c: contractions for x86-64 with AVX2 and FMA. CMakeLists.txt says the flags; built without them, this is
 * a variant that never runs. */
#include "runtime/contract.h"

#if defined(__AVX2__) && defined(__FMA__)
#define MGPU_VECTOR_BYTES 32
enum { MGPU_TILE_ROWS = 6, MGPU_TILE_ROWS_NARROW = 10 };
#include "runtime/contract_product.h"

const mgpu_contract_variant mgpu_contract_avx2 = {"avx2", mgpu_multiply_phases_f32, mgpu_multiply_phases_f64};
#else
const mgpu_contract_variant mgpu_contract_avx2 = {.name = "avx2"};
#endif
