/* Prints data for the comparison with a peer (tests/peers/torchvision_input.py):
 *     views pixels FOLDER SPLIT SIZE   each validation image, SIZE x SIZE x 3 bytes
 *     views crops WIDTH HEIGHT N       N training crops, a line "x y w h flip" each */
#include "input/augment.h"
#include "input/loader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status pixels(const char *folder, const char *split, int size)
{
    struct dataset *data = NULL;
    struct loader *loader = NULL;
    struct batch *b;
    enum status st = STATUS_OK;
    CHECK(dataset_open(folder, split, &data));
    struct loader_config c = {
        .data = data, .image_size = size, .batch = 8, .workers = 2, .prefetch = 2, .world = 1};
    CHECK(loader_open(&c, &loader));
    CHECK(loader_start(loader, 0, 0));
    for (;;) {
        CHECK(loader_next(loader, &b));
        if (!b)
            break;
        fwrite(b->pixels, (size_t)size * (size_t)size * 3, (size_t)b->count, stdout);
        loader_release(loader, b);
    }
done:
    loader_close(loader);
    dataset_free(data);
    return st;
}

static void crops(int width, int height, int n)
{
    static const struct crop_range range = {0.08f, 1.0f, 3.0f / 4, 4.0f / 3};
    for (int i = 0; i < n; i++) {
        struct rng rng = rng_at(11, RNG_AUGMENT, 0, (uint64_t)i);
        struct view v = view_train(&range, 64, width, height, &rng);
        printf("%d %d %d %d %d\n", v.x.lo, v.y.lo, v.x.hi - v.x.lo, v.y.hi - v.y.lo, v.flip);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    enum status st = STATUS_OK;
    if (strcmp(what, "pixels") == 0 && argc == 5)
        st = pixels(argv[2], argv[3], atoi(argv[4]));
    else if (strcmp(what, "crops") == 0 && argc == 5)
        crops(atoi(argv[2]), atoi(argv[3]), atoi(argv[4]));
    else
        st = status_fail(STATUS_USAGE, "unknown arguments; tests/input/views.c lists the commands");
    if (st != STATUS_OK)
        fprintf(stderr, "views: %s\n", status_message());
    return status_exit_code(st);
}
