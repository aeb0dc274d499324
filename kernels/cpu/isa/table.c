/* The table of inner loops for one instruction set. */
#include "kernels/cpu/isa/isa.h"

#define ENTRY(name, element) [ELEMENT_##element] = &FOR_ELEMENT(name, element)
#define EACH_ELEMENT(name)                                                                         \
    {                                                                                              \
        ENTRY(name, F32), ENTRY(name, ROUNDS_F16), ENTRY(name, ROUNDS_BF16),                       \
            ENTRY(name, ROUNDS_TF32), ENTRY(name, F16), ENTRY(name, BF16)                          \
    }

const struct cpu_kernels ISA(cpu_kernels) = {
    .isa = ISA_STR(CPU_ISA),
    .impl = "own:" ISA_STR(CPU_ISA),
    .bn = EACH_ELEMENT(bn_kernels),
    .flat = EACH_ELEMENT(flat_kernels),
    .maxpool = EACH_ELEMENT(maxpool_kernels),
    .mixed = &ISA(mixed_kernels),
    .winograd = &ISA(winograd_kernels),
#if defined(__AVX512F__)
    .weights = &cpu_weights_kernels,
#endif
};
