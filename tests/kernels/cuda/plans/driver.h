/* Libraries that cuDNN loads for engines that it compiles at run time. */
#pragma once

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

/* Without a driver library or a stub of it, cuDNN offers no such engine. */
static inline bool driver_loads(void)
{
    return dlopen("libcuda.so.1", RTLD_LAZY) != NULL;
}

/* cuDNN loads and unloads the compiler for every such engine that it considers. This reference
 * keeps the compiler loaded, so that tests are short and the leak sanitizer knows the owner of its
 * memory. */
static inline void compiler_keep(void)
{
    (void)(dlopen("libnvrtc.so.13", RTLD_LAZY) || dlopen("libnvrtc.so.12", RTLD_LAZY));
}
