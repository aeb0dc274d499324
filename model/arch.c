/* Finds architectures by name, and builds their graphs. */
#include "base/array.h"
#include "base/nearest.h"
#include "base/text.h"
#include "model/builder.h"

#include <stdio.h>
#include <string.h>

static const struct arch *const families[] = {arch_alexnet, arch_resnet, arch_vgg};

/* The i-th architecture over all families, NULL past the last. */
static const struct arch *arch_at(int i)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (const struct arch *a = families[f]; a->name; a++)
            if (i-- == 0)
                return a;
    return NULL;
}

static enum status arch_find(const char *name, const struct arch **arch)
{
    char known[512] = "", meant[96];
    struct nearest near = nearest_to(name);
    for (int i = 0; (*arch = arch_at(i)); i++) {
        if (strcmp((*arch)->name, name) == 0)
            return STATUS_OK;
        nearest_offer(&near, (*arch)->name, strlen((*arch)->name));
        text_join(known, sizeof known, ", ", "%s", (*arch)->name);
    }
    nearest_say(&near, "", meant, sizeof meant);
    return status_fail(STATUS_USAGE, "unknown network '%.40s'%s%s known: %s", name, meant,
                       *meant ? "" : ";", known);
}

/* Builds the graph of `a`. If the image is too small for a layer, sets `small` to the layer's name.
 */
static enum status graph_draw(const struct arch *a, int classes, int image_size, struct graph **g,
                              char small[NAME_MAX_LEN])
{
    struct builder b = {0};
    TRY(array_new(&b.g, 1));
    snprintf(b.g->arch, sizeof b.g->arch, "%s", a->name);
    b.g->classes = classes;
    b.g->image_size = image_size;
    a->build(&b, a->variant);
    memcpy(small, b.small, NAME_MAX_LEN);
    if (b.st != STATUS_OK)
        graph_free(b.g);
    else
        *g = b.g;
    return b.st;
}

/* Fails with the message that the images are too small for `layer`. The message also names the
 * smallest size that works. */
static enum status image_too_small(const struct arch *a, int classes, int image_size,
                                   const char *layer)
{
    struct graph *g = NULL;
    char still_small[NAME_MAX_LEN] = "";
    int works = image_size;
    enum status st;
    do
        st = graph_draw(a, classes, ++works, &g, still_small);
    while (st != STATUS_OK && still_small[0] && works < IMAGE_SIZE_MAX);
    graph_free(g);
    return st != STATUS_OK ? st
                           : status_fail(STATUS_USAGE,
                                         "images of %d pixels a side are too small for layer '%s' "
                                         "of %s; use at least %d",
                                         image_size, layer, a->name, works);
}

enum status graph_build(const char *arch, int classes, int image_size, struct graph **g)
{
    *g = NULL;
    const struct arch *a;
    TRY(arch_find(arch, &a));
    if (classes < 1 || classes > CLASSES_MAX)
        return status_fail(STATUS_USAGE, "a network cannot have %d classes; give 1 to %d", classes,
                           CLASSES_MAX);
    if (image_size < 1 || image_size > IMAGE_SIZE_MAX)
        return status_fail(STATUS_USAGE, "an image cannot have a side of %d pixels; give 1 to %d",
                           image_size, IMAGE_SIZE_MAX);
    char small[NAME_MAX_LEN] = "";
    enum status st = graph_draw(a, classes, image_size, g, small);
    if (st != STATUS_OK && small[0])
        st = image_too_small(a, classes, image_size, small);
    return st;
}

const char *graph_arch_name(int i)
{
    const struct arch *a = arch_at(i);
    return a ? a->name : NULL;
}
