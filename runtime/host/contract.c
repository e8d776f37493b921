/* contract.c: mgpu_contract, mgpu_contract_shared and mgpu_attend call the code for the best instruction set of the processor and
 * the system. The query is a few loads, as the C compiler's library caches the answers. */
#include "runtime/host/contract.h"

#include <stddef.h>

static bool has_avx2(void)
{
#if defined(__x86_64__)
    return mgpu_contract_avx2.run != NULL && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

static bool has_avx512(void)
{
#if defined(__x86_64__)
    return mgpu_contract_avx512.run != NULL && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

const mgpu_contract_variant *mgpu_contract_choice(int number)
{
    if (has_avx512() && number-- == 0)
        return &mgpu_contract_avx512;
    if (has_avx2() && number-- == 0)
        return &mgpu_contract_avx2;
    return number == 0 ? &mgpu_contract_base : NULL;
}

void mgpu_contract(const mgpu_contraction *table, void *const *argument, const mgpu_part *part)
{
    mgpu_contract_choice(0)->run(table, argument, part, false);
}

void mgpu_contract_shared(const mgpu_contraction *table, void *const *argument, const mgpu_part *part)
{
    mgpu_contract_choice(0)->run(table, argument, part, true);
}

void mgpu_attend(const mgpu_attention *table, void *const *argument, const mgpu_part *part)
{
    mgpu_contract_choice(0)->attend(table, argument, part);
}
