/* Finds and loads a module. If a part is missing, the message names it. */
#include "base/module.h"

#include "base/file.h"

#include <config.h> /* the file that the build generates, not one of this component */
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Folders that are searched for modules, relative to the program's folder. */
static const char *const places[] = {".", AMPSCALE_MODULE_DIR};

/* Writes the path of the folder that contains the running program, without a slash at its end. */
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

/* Finds the module's file; STATUS_UNSUPPORTED if there is none. */
static enum status find_module(const struct module_file *m, char *path, size_t size)
{
    const char *named = getenv(m->variable);
    if (named && *named) {
        TRY(path_format(path, size, "%s%s", strchr(named, '/') ? "" : "./", named));
        if (path_exists(path))
            return STATUS_OK;
        return status_fail(STATUS_UNSUPPORTED, "%s names '%s', which does not exist", m->variable,
                           named);
    }
    char dir[PATH_MAX];
    TRY(program_folder(dir, sizeof dir));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        TRY(path_format(path, size, "%s/%s/%s", dir, places[i], m->file));
        if (path_exists(path))
            return STATUS_OK;
    }
    return status_fail(STATUS_UNSUPPORTED, "%s", m->absent);
}

/* Fails, and says why the module cannot be loaded. If a library is missing, the dynamic linker's
 * message `words` is "libx.so.1: cannot open shared object file: ...", and the text before the
 * colon is the library's name. */
static enum status explain(const struct module_file *m, const char *path, const char *words)
{
    const char *colon = strchr(words, ':');
    size_t length = colon ? (size_t)(colon - words) : 0;
    bool missing = strstr(words, "cannot open shared object file") != NULL;
    if (missing && length > 0 && length < 256 && strncmp(words, path, length) != 0)
        return status_fail(STATUS_UNSUPPORTED,
                           "the %s needs the library '%.*s', which is not installed", m->name,
                           (int)length, words);
    return status_fail(STATUS_UNSUPPORTED, "cannot load the %s: %s", m->name, words);
}

enum status module_open(const struct module_file *m, char *path, size_t size, void **library)
{
    TRY(find_module(m, path, size));
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return *library ? STATUS_OK : explain(m, path, dlerror());
}
