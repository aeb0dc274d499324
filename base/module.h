/* Modules: shared objects that the program loads at run time, because they need libraries that not
 * every machine has. */
#pragma once

#include "base/status.h"

#include <stddef.h>

struct module_file {
    const char *name;     /* "CUDA module", for messages */
    const char *file;     /* "ampscale_cuda.so" */
    const char *variable; /* environment variable that names another file */
    const char *absent;   /* the message if there is no such file */
};

/* Loads a module: the file that the environment variable names, else the file next to the program,
 * else the installed file. The module stays loaded; a later call returns the same `*library`. The
 * path is stored in path[size]. If the module or a library that it needs is missing, returns
 * STATUS_UNSUPPORTED, and the message names the missing part. */
MUST_CHECK enum status module_open(const struct module_file *m, char *path, size_t size,
                                   void **library);
