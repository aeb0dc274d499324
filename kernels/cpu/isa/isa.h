/* Names of what one instruction set's copy of isa/ exports: ISA(cpu_kernels) is
 * cpu_kernels_avx512 where the build says CPU_ISA=avx512, and ROUNDED(bn_kernels) is
 * bn_kernels_avx512_F16 where it says CPU_ROUNDING=F16 too. */
#ifndef KERNELS_CPU_ISA_ISA_H
#define KERNELS_CPU_ISA_ISA_H

#include "kernels/cpu/kernels.h"

#define ISA_PASTE_(name, isa) name##_##isa
#define ISA_PASTE(name, isa)  ISA_PASTE_(name, isa)
#define ISA(name)             ISA_PASTE(name, CPU_ISA)

#define ROUNDED_TO(name, rounding) ISA_PASTE(ISA(name), rounding)
#define ROUNDED(name)              ROUNDED_TO(name, CPU_ROUNDING)

#define ISA_STR_(isa) #isa
#define ISA_STR(isa)  ISA_STR_(isa)

#define ISA_DECLARE(rounding)                                                                      \
    extern const struct bn_kernels ROUNDED_TO(bn_kernels, rounding);                               \
    extern const struct flat_kernels ROUNDED_TO(flat_kernels, rounding);                           \
    extern const struct maxpool_kernels ROUNDED_TO(maxpool_kernels, rounding)
ISA_DECLARE(NONE);
ISA_DECLARE(F16);
ISA_DECLARE(BF16);
ISA_DECLARE(TF32);
extern const struct mixed_kernels ISA(mixed_kernels);

#endif
