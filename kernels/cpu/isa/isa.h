/* Names of the symbols that one instruction set's copy of isa/ exports: ISA(cpu_kernels) is
 * cpu_kernels_avx512 if the build sets CPU_ISA=avx512, and OF_ELEMENT(bn_kernels) is
 * bn_kernels_avx512_BF16 if the build also sets CPU_ELEMENT=BF16. */
#pragma once

#include "kernels/cpu/kernels.h"

#define ISA_PASTE_(name, isa) name##_##isa
#define ISA_PASTE(name, isa)  ISA_PASTE_(name, isa)
#define ISA(name)             ISA_PASTE(name, CPU_ISA)

#define FOR_ELEMENT(name, element) ISA_PASTE(ISA(name), element)
#define OF_ELEMENT(name)           FOR_ELEMENT(name, CPU_ELEMENT)

#define ISA_STR_(isa) #isa
#define ISA_STR(isa)  ISA_STR_(isa)

#define ISA_DECLARE(element)                                                                       \
    extern const struct bn_kernels FOR_ELEMENT(bn_kernels, element);                               \
    extern const struct flat_kernels FOR_ELEMENT(flat_kernels, element);                           \
    extern const struct maxpool_kernels FOR_ELEMENT(maxpool_kernels, element)
ISA_DECLARE(F32);
ISA_DECLARE(ROUNDS_F16);
ISA_DECLARE(ROUNDS_BF16);
ISA_DECLARE(ROUNDS_TF32);
ISA_DECLARE(F16);
ISA_DECLARE(BF16);
extern const struct mixed_kernels ISA(mixed_kernels);
extern const struct winograd_kernels ISA(winograd_kernels);
extern const struct weights_kernels cpu_weights_kernels; /* AVX-512 with bf16 */
