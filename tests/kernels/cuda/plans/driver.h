/* Loads the libraries that cuDNN needs for engines that it compiles at run time. */
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

/* cuDNN loads and unloads the compiler for every engine that it may compile. This call keeps the
 * compiler loaded. Tests then take less time, and the leak sanitizer can name the owner of the
 * compiler's memory. */
static inline void compiler_keep(void)
{
    (void)(dlopen("libnvrtc.so.13", RTLD_LAZY) || dlopen("libnvrtc.so.12", RTLD_LAZY));
}
