/* Finds the 16-bit types in which oneDNN computes. When a device is opened, tries small primitives
 * like those of a network. */
#include "kernels/cpu/onednn_plan.h"

#include <string.h>

/* Makes the primitive descriptor of one pass in `type`, with the gradients of weights in fp32, as
 * plans do. *fast is set to the result of onednn_is_fast(). */
static enum status try_pass(struct onednn_engine *e, enum pass pass, bool is_conv, enum dtype type,
                            bool *fast)
{
    enum { IMAGES = 2, CHANNELS = 32, SIDE = 8, KERNEL = 3 };
    enum status st;
    enum dtype weight = pass == PASS_BACKWARD_WEIGHTS ? DTYPE_F32 : type;
    struct tensor_desc t[3] = {
        is_conv ? tensor_4d(type, LAYOUT_ANY, IMAGES, CHANNELS, SIDE, SIDE)
                : tensor_2d(type, IMAGES, CHANNELS),
        is_conv ? tensor_4d(weight, LAYOUT_ANY, CHANNELS, CHANNELS, KERNEL, KERNEL)
                : tensor_2d(weight, CHANNELS, CHANNELS),
    };
    t[2] = t[0]; /* the padding makes input and result equally large */
    struct md md[3];
    memset(md, 0, sizeof md);
    struct gemm_like g = {.pass = pass,
                          .src = &md[0],
                          .weights = &md[1],
                          .dst = &md[2],
                          .is_conv = is_conv,
                          .stride = {1, 1},
                          .pad = {KERNEL / 2, KERNEL / 2}};
    dnnl_primitive_desc_t pd = NULL;
    for (int i = 0; i < 3; i++) {
        t[i].layout = LAYOUT_ANY;
        CHECK(md_from_tensor(e, &t[i], 1, &md[i]));
    }
    CHECK(pd_make(&pd, e->engine, &g));
    *fast = onednn_is_fast(pd);
done:
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    for (int i = 0; i < 3; i++)
        md_free(&md[i]);
    return st;
}

/* Returns whether the library computes in `type`. Returns false if it has no implementation. */
static bool probe(struct onednn_engine *e, enum dtype type)
{
    for (int pass = PASS_FORWARD; pass <= PASS_BACKWARD_WEIGHTS; pass++)
        for (int is_conv = 0; is_conv < 2; is_conv++) {
            bool fast = false;
            if (try_pass(e, (enum pass)pass, is_conv, type, &fast) != STATUS_OK || !fast)
                return false;
        }
    return true;
}

void onednn_native_find(struct onednn_engine *e)
{
    static const enum dtype narrow[] = {DTYPE_F16, DTYPE_BF16};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
        e->native[narrow[i]] = onednn_has_instructions(narrow[i]) && probe(e, narrow[i]);
}

bool onednn_native(const struct onednn_engine *e, enum dtype type)
{
    return e->native[type];
}
