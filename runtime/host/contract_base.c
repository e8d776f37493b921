/* contract_base.c: contractions for any processor, with vectors of 16 bytes (SSE2, NEON). */
#include "runtime/host/contract.h"

#define MGPU_VECTOR_BYTES 16
/* clang-format off */
#define MGPU_TILES(F) \
    F(1, 1) F(2, 1) F(4, 1) F(6, 1) \
    F(1, 2) F(2, 2) F(3, 2) F(4, 2)
/* clang-format on */
#define MGPU_TILES_BESIDE(F) F(1) F(2) F(4) F(6)
enum { MGPU_ROWS_1 = 6, MGPU_ROWS_2 = 4, MGPU_ROWS_3 = 0, MGPU_ROWS_4 = 0, MGPU_ROWS_BESIDE = 6 };
#include "runtime/host/contract_matmul.h"

const mgpu_contract_variant mgpu_contract_base = {"base", mgpu_contract_typed, mgpu_attend_typed};
