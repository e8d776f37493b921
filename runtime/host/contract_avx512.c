/* contract_avx512.c: contractions for x86-64 with AVX-512. CMakeLists.txt sets the flags; without them, this is a variant that is
 * never run. */
#include "runtime/host/contract.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__FMA__)
#define MGPU_VECTOR_BYTES 64
/* clang-format off */
#define MGPU_TILES(F) \
    F(1, 1) F(2, 1) F(3, 1) F(4, 1) F(6, 1) F(8, 1) F(10, 1) F(12, 1) F(14, 1) F(16, 1) F(18, 1) F(20, 1) F(22, 1) F(24, 1) \
    F(1, 2) F(2, 2) F(3, 2) F(4, 2) F(5, 2) F(6, 2) F(7, 2) F(8, 2) F(9, 2) F(10, 2) F(11, 2) F(12, 2) F(13, 2) F(14, 2) \
    F(1, 3) F(2, 3) F(3, 3) F(4, 3) F(5, 3) F(6, 3) F(7, 3) F(8, 3) \
    F(1, 4) F(2, 4) F(3, 4) F(4, 4) F(5, 4) F(6, 4)
#define MGPU_TILES_BESIDE(F) F(1) F(2) F(4) F(6) F(8) F(10) F(12)
/* clang-format on */
enum { MGPU_ROWS_1 = 24, MGPU_ROWS_2 = 14, MGPU_ROWS_3 = 8, MGPU_ROWS_4 = 6, MGPU_ROWS_BESIDE = 12 };
#include "runtime/host/contract_matmul.h"

const mgpu_contract_variant mgpu_contract_avx512 = {"avx512", mgpu_contract_typed, mgpu_attend_typed};
#else
const mgpu_contract_variant mgpu_contract_avx512 = {.name = "avx512"};
#endif
