/* Arrays on the heap whose sizes are checked. A failure is STATUS_OOM; its message names the size
 * and the calling function. Each function below says which value the caller's pointer has after a
 * failure. */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Allocates `n` zeroed elements and stores their address in *p, a pointer of any type. If `n` is 0,
 * allocates one element, so that NULL always means a failure. `n` may be of any integer type. A
 * negative `n` fails, and so does a size in bytes above PTRDIFF_MAX. The caller frees *p, which is
 * NULL after a failure.
 *
 *     TRY(array_new(&net->segment, n));
 */
#define array_new(p, n) array_new_sized((p), (int64_t)(n), sizeof **(p), __func__)

/* Ensures that the array *p, which has `n` elements, has memory for one more, and zeroes the memory
 * that it adds. *p starts as NULL, and only this macro may allocate it: if `n` is 0 or a power of
 * two, the macro assumes that the array is full, and doubles its capacity. After a failure *p is
 * unchanged.
 *
 *     TRY(array_reserve(&list->item, list->n));
 *     list->item[list->n++] = item;
 */
#define array_reserve(p, n) array_reserve_sized((p), (int64_t)(n), sizeof **(p), __func__)

/* The macros call these functions. `p` is the address of the caller's pointer, and `where` is the
 * name of the calling function. */
MUST_CHECK enum status array_new_sized(void *p, int64_t n, size_t size, const char *where);
MUST_CHECK enum status array_reserve_sized(void *p, int64_t n, size_t size, const char *where);
