/* Allocates arrays. memcpy reads and writes the caller's pointers, because a `T **` must not be
 * used as a `void **`. */
#include "base/array.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static enum status fail(int64_t n, size_t size, const char *where)
{
    return status_fail(STATUS_OOM, "no memory for %lld elements of %zu bytes (%s)", (long long)n,
                       size, where);
}

enum status array_new_sized(void *p, int64_t n, size_t size, const char *where)
{
    bool fits = n >= 0 && (size_t)n <= PTRDIFF_MAX / size;
    void *mem = fits ? calloc(n > 0 ? (size_t)n : 1, size) : NULL;
    memcpy(p, &mem, sizeof mem);
    return mem ? STATUS_OK : fail(n, size, where);
}

enum status array_reserve_sized(void *p, int64_t n, size_t size, const char *where)
{
    void *mem;
    memcpy(&mem, p, sizeof mem);
    if (mem && n > 0 && (n & (n - 1)) != 0)
        return STATUS_OK;
    size_t capacity = n > 0 ? 2 * (size_t)n : 1;
    char *grown = n < 0 || capacity > PTRDIFF_MAX / size ? NULL : realloc(mem, capacity * size);
    if (!grown)
        return fail(n, size, where);
    memset(grown + (size_t)n * size, 0, (capacity - (size_t)n) * size);
    memcpy(p, &grown, sizeof grown);
    return STATUS_OK;
}
