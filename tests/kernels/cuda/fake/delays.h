/* A device that takes time instead of computing: AMPSCALE_FAKE_DELAYS=SCALE.
 *
 * The fake then has an H200's memory, which the host lends as far as it is touched. A large
 * convolution, product or copy is not carried out, and a kernel only as far as a moment allows, a
 * shorter one when something large was left out before: small problems are computed. Each takes on
 * its stream the time that its bytes and operations take an H200, times SCALE; whoever waits sleeps
 * until then. Of a kernel's bytes those are known that cuDNN or cuBLASLt have met at the same
 * address. Streams do not slow each other down. Results of operations that are left out are zeros,
 * so that losses stay finite; they have no meaning.
 *
 * Rates (an H200's, as measured elsewhere): 4.3 TB/s; 790 TFLOP/s in fp16 and bf16, half of it in
 * TF32, 60 in fp32; 3 us for a launch; 55 GB/s from and to the host. The host's time for cuDNN is
 * what version 9.19 took on a CPU to plan 3x3 convolutions for an H200
 * (kernels/gpus): 1.5 ms for the heuristics of a plain one, and its 20 plans next
 * to nothing; 28 ms for those of a form with batch norm, and 2.5 ms for each plan; 137 ms for the
 * first of all. That an engine's first execution takes 30 ms, for its kernels must be loaded, is an
 * assumption. */
#pragma once

#include <stddef.h>

bool fake_delayed();

/* The host is busy for that time. */
void fake_host_takes(double seconds);

/* The operations per second of an arithmetic. */
enum fake_rate { RATE_NARROW, RATE_TF32, RATE_F32 };

/* The time of a launch on its stream; 0 without delays. */
double fake_takes(double bytes, double flops, enum fake_rate rate);
double fake_copy_takes(double bytes, bool from_or_to_host);

/* Whether work is too large to be executed. */
bool fake_too_large(double bytes, double flops);

/* Remembers the size of a tensor until its memory is freed, and adds up the sizes of a kernel's
 * arguments. */
void fake_know(const void *mem, size_t bytes);
void fake_forget(const void *mem, size_t bytes);

/* The result of work that is left out: zeros, by releasing whole pages. */
void fake_clear(void *mem, size_t bytes);
double fake_kernel_bytes(const void *arguments, size_t size);

/* Called between the blocks of a kernel that fake_kernel_begins() has announced: whether to leave
 * out the remaining blocks. */
void fake_kernel_begins();
bool fake_kernel_enough();
