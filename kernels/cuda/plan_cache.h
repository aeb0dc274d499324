/* What a clock has said of plans and operations, kept in a file, so that the next run need not time
 * again and chooses alike.
 *
 * A key says all that the fact depends on: the GPU's name, the versions of the library and of the
 * program, the operation, its types and shape. The file is text, one fact (plan_choice.h) a line in
 * the order of keys:
 *
 *     ampscale plans 3
 *     plan <engine> <nanoseconds> <knob>=<value>,...|- <key>
 *     none <key>
 *     time <nanoseconds> <key>
 *     sum <FNV-1a of all lines above, 16 hexadecimal digits>
 *
 * It is replaced as a whole, so that readers see the old one or the new one. Anyone may have
 * written it: what is not exactly of this form is refused as a whole, and a choice that is in order
 * is still only tried, never trusted (plan_make). */
#ifndef KERNELS_CUDA_PLAN_CACHE_H
#define KERNELS_CUDA_PLAN_CACHE_H

#include "base/status.h"
#include "kernels/cuda/plan_choice.h"

#include <stddef.h>

/* Keys are printable ASCII, not empty, without the terminating NUL at most KEY_MAX - 1 long. */
enum { PLAN_KEY_MAX = 320, PLAN_CACHE_MAX = 65536 };

struct plan_cache;

MUST_CHECK enum status plan_cache_open(struct plan_cache **cache);
void plan_cache_close(struct plan_cache *cache); /* NULL is fine */

/* Takes the facts of a file; those of keys that are already there are replaced. A file that does
 * not exist is STATUS_OK. One that is damaged is STATUS_DATA and leaves the cache as it was: the
 * caller may go on, and save over it. */
MUST_CHECK enum status plan_cache_load(struct plan_cache *cache, const char *path);

MUST_CHECK enum status plan_cache_save(const struct plan_cache *cache, const char *path);

/* Adds the facts of `from` whose keys are unknown. */
MUST_CHECK enum status plan_cache_merge(struct plan_cache *cache, const struct plan_cache *from);

/* NULL where the key is unknown. Valid until the next load or put. */
const struct plan_choice *plan_cache_find(const struct plan_cache *cache, const char *key);

/* Adds or replaces. STATUS_INVALID for a key or a choice that no file could hold. */
MUST_CHECK enum status plan_cache_put(struct plan_cache *cache, const char *key,
                                      const struct plan_choice *choice);

size_t plan_cache_count(const struct plan_cache *cache);

#endif
