/* Counter-based random numbers: each value is a pure function of a key and a counter.
 *
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). There is
 * no state to share between threads, to save in a checkpoint or to advance: sample i of epoch e
 * draws from rng_at(seed, RNG_AUGMENT, e, i) wherever and whenever it is decoded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each use draws from its own stream, so that a new use does not change the random numbers of the
 * other uses. */
enum rng_stream {
    RNG_INIT = 1,    /* weight initialisation: a = parameter's name hash, b = 0 */
    RNG_SHUFFLE = 2, /* epoch order: a = epoch, b = 0 */
    RNG_AUGMENT = 3, /* crop and flip: a = epoch, b = sample index */
    RNG_DROPOUT = 4, /* dropout masks: a = step, b = layer */
    RNG_SYNTH = 5,   /* generated images: a = class, b = image */
    RNG_DUMMY = 6,   /* --dummy tensors: a = sample index, b = 0 */
    RNG_TEST = 7,
    RNG_BOOTSTRAP = 8, /* confidence intervals: a = resample, b = 0 */
    RNG_FAULT = 9,     /* the bit that --inject flips if its argument names no bit: a = b = 0 */
    RNG_MIXUP = 10,    /* the weight of mixed images: a = step, b = 0 */
};

struct rng {
    uint32_t key[2];
    uint32_t ctr[4]; /* ctr[0] counts blocks drawn */
    uint32_t out[4];
    int left; /* number of words of `out` that are not yet returned */
};

/* Computes one block of four random words from a counter and a key. */
void philox4x32(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);

/* Returns the generator for this seed, stream, `a` and `b`. Only the low 32 bits of `a` and the low
 * 48 bits of `b` are used. */
struct rng rng_at(uint64_t seed, enum rng_stream stream, uint64_t a, uint64_t b);

uint32_t rng_u32(struct rng *r);

/* Uniform in [0, 1): 24 bits, exactly representable in float. */
float rng_float(struct rng *r);

/* Uniform in [0, 1): 53 bits. */
double rng_double(struct rng *r);

/* Uniform in 0..n-1 without bias (rejection). n >= 1. */
uint32_t rng_below(struct rng *r, uint32_t n);

/* Standard normal, by the Box-Muller method; only one number of each pair is used. */
double rng_normal(struct rng *r);

/* A draw from Beta(a, b), a and b > 0: x / (x + y), where x and y are gamma variates by the method
 * of Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26 (2000). The
 * quotient is computed from the logarithms of x and y, because for small a and b both would
 * underflow. */
double rng_beta(struct rng *r, double a, double b);

/* hash_fnv1a64 returns the FNV-1a hash of a string. hash_splitmix64 hashes a number with one step
 * of splitmix64: it adds the golden-ratio increment and applies the finaliser. */
uint64_t hash_fnv1a64(const char *s);
uint64_t hash_splitmix64(uint64_t x);

/* Hashes memory in words of eight bytes, starting from the hash `h`. Two inputs that differ in one
 * word, for example by one flipped bit, always have different hashes, because each step is a
 * bijection. If several words differ, the hashes are equal with a probability of 2^-64. */
uint64_t hash_bytes(uint64_t h, const void *mem, size_t bytes);

#ifdef __cplusplus
}
#endif
