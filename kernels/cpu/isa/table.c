/* The table of one instruction set. */
#include "kernels/cpu/isa/isa.h"

const struct cpu_kernels ISA(cpu_kernels) = {
    .isa = ISA_STR(CPU_ISA),
    .impl = "own:" ISA_STR(CPU_ISA),
    .bn = &ISA(bn_kernels),
    .flat = &ISA(flat_kernels),
    .maxpool = &ISA(maxpool_kernels),
};
