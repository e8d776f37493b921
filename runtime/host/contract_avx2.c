/* contract_avx2.c: contractions for x86-64 with AVX2 and FMA. CMakeLists.txt sets the flags; without them, this is a variant that
 * is never run. */
#include "runtime/host/contract.h"

#if defined(__AVX2__) && defined(__FMA__)
#define MGPU_VECTOR_BYTES 32
/* clang-format off */
#define MGPU_TILES(F) \
    F(1, 1) F(2, 1) F(4, 1) F(6, 1) F(8, 1) F(10, 1) \
    F(1, 2) F(2, 2) F(3, 2) F(4, 2) F(5, 2) F(6, 2) \
    F(1, 3) F(2, 3) F(3, 3) F(4, 3)
#define MGPU_TILES_BESIDE(F) F(1) F(2) F(4) F(6) F(8)
/* clang-format on */
enum { MGPU_ROWS_1 = 10, MGPU_ROWS_2 = 6, MGPU_ROWS_3 = 4, MGPU_ROWS_4 = 0, MGPU_ROWS_BESIDE = 8 };
#include "runtime/host/contract_matmul.h"

const mgpu_contract_variant mgpu_contract_avx2 = {"avx2", mgpu_contract_typed, mgpu_attend_typed};
#else
const mgpu_contract_variant mgpu_contract_avx2 = {.name = "avx2"};
#endif
