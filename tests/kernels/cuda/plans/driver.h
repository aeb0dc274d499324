/* Loads the driver library, which cuDNN needs for engines that it compiles at run time. */
#pragma once

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns whether a driver library or its stub can be loaded. Without it, cuDNN offers no engine
 * that it compiles at run time. */
static inline bool driver_loads(void)
{
    return dlopen("libcuda.so.1", RTLD_LAZY) != NULL;
}
