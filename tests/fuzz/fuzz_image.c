/* Fuzzes the decoders of JPEG and PNG files, in every way in which training and validation
 * call them. */
#include "input/sample.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

enum { SIDE = 32 };

static void view_of(struct sample_reader *r, bool train, const uint8_t *data, size_t size)
{
    const struct sample_config c = {.train = train,
                                    .image_size = SIDE,
                                    .resize = SIDE + 4,
                                    .range = {0.08f, 1, 0.75f, 1.333f},
                                    .filter = size % 2 ? RESIZE_BICUBIC : RESIZE_BILINEAR};
    static uint8_t out[SIDE * SIDE * 3];
    struct sample_view view;
    struct rng rng = rng_at(1, RNG_TEST, size, 0);
    if (fuzz_ok(sample_decode(r, &c, data, size, &rng, &view)))
        fuzz_ok(sample_resample(r, &view, out));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sample_reader *r;
    static struct decoder *d;
    struct image_info info;
    if (!r && (sample_reader_open(&r) != STATUS_OK || decoder_open(&d) != STATUS_OK))
        abort();
    /* Skips large pictures, to bound the time of an input: a header of a few bytes may claim 178
     * million pixels. */
    if (!fuzz_ok(decoder_begin(d, data, size, &info)) ||
        (int64_t)info.width * info.height > 1 << 20)
        return 0;
    fuzz_ok(decoder_check(d));
    view_of(r, true, data, size);
    view_of(r, false, data, size);
    return 0;
}
