/* Names of what one instruction set's copy of isa/ exports: ISA(cpu_kernels) is
 * cpu_kernels_avx512 where the build says CPU_ISA=avx512. */
#ifndef KERNELS_CPU_ISA_ISA_H
#define KERNELS_CPU_ISA_ISA_H

#include "kernels/cpu/kernels.h"

#define ISA_PASTE_(name, isa) name##_##isa
#define ISA_PASTE(name, isa)  ISA_PASTE_(name, isa)
#define ISA(name)             ISA_PASTE(name, CPU_ISA)

#define ISA_STR_(isa) #isa
#define ISA_STR(isa)  ISA_STR_(isa)

extern const struct bn_kernels ISA(bn_kernels);
extern const struct flat_kernels ISA(flat_kernels);
extern const struct maxpool_kernels ISA(maxpool_kernels);

#endif
