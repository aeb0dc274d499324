/* Finding and loading the CUDA module, and saying what is missing. */
#include "kernels/module.h"

#include "base/file.h"
#include "config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the module may lie, from the program's folder. */
static const char *const places[] = {CUDA_MODULE_FILE, AMPSCALE_MODULE_DIR "/" CUDA_MODULE_FILE};

/* The folder of the running program, without its last slash. */
static enum status program_folder(char *dir, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", dir, size - 1);
    if (n <= 0)
        return status_fail(STATUS_IO, "cannot find the program's own folder");
    dir[n] = '\0';
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    return STATUS_OK;
}

/* The module's file; STATUS_UNSUPPORTED when there is none. */
static enum status find_module(char *path, size_t size)
{
    const char *named = getenv("AMPSCALE_CUDA_MODULE");
    if (named && *named) {
        TRY(path_format(path, size, "%s%s", strchr(named, '/') ? "" : "./", named));
        if (path_exists(path))
            return STATUS_OK;
        return status_fail(STATUS_UNSUPPORTED,
                           "AMPSCALE_CUDA_MODULE names '%s', which does not exist", named);
    }
    char dir[PATH_MAX];
    TRY(program_folder(dir, sizeof dir));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        TRY(path_format(path, size, "%s/%s", dir, places[i]));
        if (path_exists(path))
            return STATUS_OK;
    }
    return status_fail(STATUS_UNSUPPORTED,
                       "device 'cuda' needs the CUDA module '%s', which this build does not have; "
                       "use --devices cpu, or build it with the CUDA toolkit and cuDNN installed",
                       CUDA_MODULE_FILE);
}

/* The dynamic linker's words are "libx.so.1: cannot open shared object file: ..." where a library
 * is missing; what comes before the colon is its name. */
static enum status explain(const char *path, const char *words)
{
    const char *colon = strchr(words, ':');
    size_t length = colon ? (size_t)(colon - words) : 0;
    bool missing = strstr(words, "cannot open shared object file") != NULL;
    if (missing && length > 0 && length < 256 && strncmp(words, path, length) != 0)
        return status_fail(STATUS_UNSUPPORTED,
                           "the CUDA module needs the library '%.*s', which is not installed",
                           (int)length, words);
    return status_fail(STATUS_UNSUPPORTED, "cannot load the CUDA module: %s", words);
}

/* The module that is loaded, or is from now on. */
static enum status open_module(char *path, size_t size, void **library)
{
    TRY(find_module(path, size));
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return *library ? STATUS_OK : explain(path, dlerror());
}

enum status cuda_module_load(const struct backend **b)
{
    char path[PATH_MAX];
    void *library;
    *b = NULL;
    TRY(open_module(path, sizeof path, &library));
    cuda_module_entry *entry;
    *(void **)&entry = dlsym(library, CUDA_MODULE_ENTRY);
    if (!entry)
        return status_fail(STATUS_UNSUPPORTED, "'%s' is no CUDA module of this program", path);
    *b = entry(AMPSCALE_MODULE_ABI);
    if (!*b)
        return status_fail(STATUS_UNSUPPORTED,
                           "the CUDA module '%s' was built for another version of this program",
                           path);
    return STATUS_OK;
}

enum status cuda_module_function(const char *name, void **function)
{
    char path[PATH_MAX];
    void *library;
    TRY(open_module(path, sizeof path, &library));
    *function = dlsym(library, name);
    if (*function)
        return STATUS_OK;
    return status_fail(STATUS_UNSUPPORTED, "the CUDA module '%s' has no '%s'", path, name);
}
