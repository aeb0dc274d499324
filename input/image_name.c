/* Recognises image files by their extension, and compares their paths. */
#include "input/image_name.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

bool image_name_is(const char *name)
{
    static const char *const extensions[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                             ".pgm", ".tif",  ".tiff", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof extensions / sizeof *extensions; i++)
        if (strcasecmp(dot, extensions[i]) == 0)
            return true;
    return false;
}

int image_name_compare(const char *a, const char *b)
{
    const char *na = strrchr(a, '/'), *nb = strrchr(b, '/');
    size_t la = (size_t)(na - a), lb = (size_t)(nb - b);
    int order = memcmp(a, b, la < lb ? la : lb);
    if (order != 0 || la != lb)
        return order != 0 ? order : (la > lb) - (la < lb);
    return strcmp(na, nb);
}
