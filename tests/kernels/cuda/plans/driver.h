/* What cuDNN loads for engines that it compiles at run time. */
#pragma once

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

/* Without a driver library (a stand-in will do) no such engine is offered. */
static inline bool driver_loads(void)
{
    return dlopen("libcuda.so.1", RTLD_LAZY) != NULL;
}

/* cuDNN loads and unloads the compiler for every such engine that it considers. One reference keeps
 * it there, so that tests are short and the leak sanitizer knows whose memory it sees. */
static inline void compiler_keep(void)
{
    (void)(dlopen("libnvrtc.so.13", RTLD_LAZY) || dlopen("libnvrtc.so.12", RTLD_LAZY));
}
