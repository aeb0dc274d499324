/* Creates and reads descriptors of cuDNN's backend API. */
#include "kernels/cuda/cudnn_desc.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { ACTION_MAX = 256, REASON_MAX = 1024 };

static atomic_bool incomplete;

bool cudnn_incomplete(void)
{
    return atomic_load(&incomplete);
}

/* Statuses are grouped by thousands: 2000 bad parameters, 3000 not supported, 4000 internal, 5000
 * execution failed. */
static enum status status_of(cudnnStatus_t s)
{
    if (s == CUDNN_STATUS_ALLOC_FAILED)
        return STATUS_OOM;
    return (int)s / 1000 * 1000 == (int)CUDNN_STATUS_NOT_SUPPORTED ? STATUS_UNSUPPORTED
                                                                   : STATUS_LIBRARY;
}

enum status cudnn_check(cudnnStatus_t s, const char *fmt, ...)
{
    if (s == CUDNN_STATUS_SUCCESS)
        return STATUS_OK;
    /* from 1000 on, the library is not initialized or cannot be loaded */
    if ((int)s / 1000 == 1 || s == CUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE)
        atomic_store(&incomplete, true);
    char action[ACTION_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(action, sizeof action, fmt, ap);
    va_end(ap);

    /* The library's message; its first line names the condition that failed. */
    char reason[REASON_MAX] = "";
    cudnnGetLastErrorString(reason, sizeof reason);
    reason[strcspn(reason, "\r\n")] = '\0';
    return status_fail(status_of(s), "cuDNN cannot %s: %s%s%s", action, cudnnGetErrorString(s),
                       reason[0] ? ": " : "", reason);
}

const char *cudnn_version(void)
{
    static const char *const unknown = "9";
    static _Thread_local char text[32];
    size_t v = cudnnGetVersion();
    if (v < 10000)
        return unknown;
    snprintf(text, sizeof text, "%zu.%zu.%zu", v / 10000, v % 10000 / 100, v % 100);
    return text;
}

enum status cudnn_desc_create(struct cudnn_desc *d, cudnnBackendDescriptorType_t type,
                              const char *kind)
{
    *d = (struct cudnn_desc){.kind = kind};
    cudnnStatus_t s = cudnnBackendCreateDescriptor(type, &d->raw);
    if (s != CUDNN_STATUS_SUCCESS)
        d->raw = NULL;
    return cudnn_check(s, "create '%s'", kind);
}

void cudnn_desc_destroy(struct cudnn_desc *d)
{
    if (d->raw)
        cudnnBackendDestroyDescriptor(d->raw);
    d->raw = NULL;
}

enum status cudnn_desc_set(struct cudnn_desc *d, cudnnBackendAttributeName_t attribute,
                           const char *name, cudnnBackendAttributeType_t type, int64_t count,
                           const void *value)
{
    return cudnn_check(cudnnBackendSetAttribute(d->raw, attribute, type, count, value),
                       "set '%s' of '%s'", name, d->kind);
}

enum status cudnn_desc_get(const struct cudnn_desc *d, cudnnBackendAttributeName_t attribute,
                           const char *name, cudnnBackendAttributeType_t type, int64_t max,
                           int64_t *count, void *value)
{
    *count = 0;
    return cudnn_check(cudnnBackendGetAttribute(d->raw, attribute, type, max, count, value),
                       "read '%s' of '%s'", name, d->kind);
}

enum status cudnn_desc_finalize(struct cudnn_desc *d)
{
    return cudnn_check(cudnnBackendFinalize(d->raw), "finalize '%s'", d->kind);
}
