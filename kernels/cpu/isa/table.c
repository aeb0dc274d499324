/* The table of one instruction set. */
#include "kernels/cpu/isa/isa.h"

#define EACH_ROUNDING(name)                                                                        \
    {                                                                                              \
        [ROUND_NONE] = &ROUNDED_TO(name, NONE), [ROUND_F16] = &ROUNDED_TO(name, F16),              \
        [ROUND_BF16] = &ROUNDED_TO(name, BF16), [ROUND_TF32] = &ROUNDED_TO(name, TF32)             \
    }

const struct cpu_kernels ISA(cpu_kernels) = {
    .isa = ISA_STR(CPU_ISA),
    .impl = "own:" ISA_STR(CPU_ISA),
    .bn = EACH_ROUNDING(bn_kernels),
    .flat = EACH_ROUNDING(flat_kernels),
    .maxpool = EACH_ROUNDING(maxpool_kernels),
    .mixed = &ISA(mixed_kernels),
};
