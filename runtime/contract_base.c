/* contract_base.c: contractions for any processor: vectors of 16 bytes (SSE2, NEON). */
#include "runtime/contract.h"

#define MGPU_VECTOR_BYTES 16
enum { MGPU_TILE_ROWS = 4, MGPU_TILE_ROWS_NARROW = 6 };
#include "runtime/contract_product.h"

const mgpu_contract_variant mgpu_contract_base = {"base", mgpu_multiply_phases_f32, mgpu_multiply_phases_f64};
