/* A device that spends time instead of computing: AMPSCALE_FAKE_DELAYS=SCALE.
 *
 * The fake then has the memory of an H200. The host provides only the part that is written or read.
 * A large convolution, product, kernel or copy is not executed. A smaller kernel is executed only
 * for a short time, which becomes shorter after the fake has skipped a large convolution or
 * product. Small problems are therefore computed. Each operation occupies its stream for the time
 * that its bytes and FLOPs take on an H200, times SCALE. A thread that waits for the operation
 * sleeps until then. The bytes of a kernel are the sum of the sizes of its tensors. The fake knows
 * the size of a tensor if cuDNN or cuBLASLt has used a tensor at the same address. Streams do not
 * slow each other down. The results of operations that are not executed are zeros. Zeros keep
 * losses finite, but have no meaning.
 *
 * The rates of an H200 are as measured by others. The host's time for cuDNN was measured with
 * version 9.19 on a CPU, for the convolutions of ResNet-50 on the description of an H200
 * (kernels/gpus). Two numbers are assumptions: the first execution of an engine takes 30 ms,
 * because its kernels must be loaded, and a process waits 0.5 to 3 s for its first context. */
#pragma once

#include <stddef.h>

bool fake_delayed();

/* Makes the calling thread sleep for `seconds` * SCALE. */
void fake_host_takes(double seconds);

/* The process opens a context. The first takes its time; later ones take none. */
void fake_context_opens();

/* The arithmetic of an operation, which determines its FLOP/s. */
enum fake_rate { RATE_NARROW, RATE_TF32, RATE_F32 };

/* The seconds that a launch or a copy takes on its stream; 0 without delays. */
double fake_takes(double bytes, double flops, enum fake_rate rate);
double fake_copy_takes(double bytes, bool from_or_to_host);

/* Returns whether an operation is too large to be executed. */
bool fake_too_large(double bytes, double flops);

/* Stores the size of a tensor until its memory is freed. fake_kernel_bytes() adds up the sizes of a
 * kernel's arguments. */
void fake_know(const void *mem, size_t bytes);
void fake_forget(const void *mem, size_t bytes);

/* Sets the result of a skipped operation to zeros, by releasing whole pages. */
void fake_clear(void *mem, size_t bytes);
double fake_kernel_bytes(const void *arguments, size_t size);

/* A kernel calls fake_kernel_begins(), and fake_kernel_enough() between its blocks. The latter
 * returns whether to skip the remaining blocks. */
void fake_kernel_begins();
bool fake_kernel_enough();
