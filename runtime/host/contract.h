/* contract.h: the contractions of mgpu_gemm.h and attention, once for every supported instruction set. */
#ifndef MGPU_CONTRACT_H
#define MGPU_CONTRACT_H

#include "runtime/abi/mgpu_attention.h"
#include "runtime/abi/mgpu_gemm.h"

/* shared: as mgpu_contract_shared, else as mgpu_contract. */
typedef void mgpu_contract_function(const mgpu_contraction *, void *const *argument, const mgpu_part *, bool shared);

typedef void mgpu_attend_function(const mgpu_attention *, void *const *argument, const mgpu_part *);

/* run and attend are NULL if the library is not built for the instruction set. */
typedef struct mgpu_contract_variant {
    const char *name;
    mgpu_contract_function *run;
    mgpu_attend_function *attend;
} mgpu_contract_variant;

extern const mgpu_contract_variant mgpu_contract_base, mgpu_contract_avx2, mgpu_contract_avx512;

/* Returns the variants that this processor can run, the fastest first; NULL after the last one. */
const mgpu_contract_variant *mgpu_contract_choice(int number);
#endif
