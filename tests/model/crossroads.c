/* The network of crossroads.h. */
#include "crossroads.h"

#include "model/builder.h"
#include "net_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int conv(struct builder *b, const char *name, int in, int out, int stride)
{
    return builder_conv(builder_name(b, "%s", name), in,
                        (struct conv_spec){.out = out,
                                           .kernel = 3,
                                           .stride = stride,
                                           .pad = 1,
                                           .bias = true,
                                           .weight_init = INIT_UNIFORM_FAN_IN,
                                           .bias_init = INIT_UNIFORM_FAN_IN});
}

struct graph *crossroads_graph(void)
{
    struct builder b = {.g = calloc(1, sizeof *b.g)};
    assert_non_null(b.g);
    strcpy(b.g->arch, "crossroads");
    b.g->classes = CROSSROADS_CLASSES;
    b.g->image_size = CROSSROADS_SIZE;
    int x = builder_input(&b);
    /* the convolution absorbs this ReLU */
    x = builder_relu(builder_name(&b, "r0"), conv(&b, "conv0", x, 16, 1));
    int fork = conv(&b, "conv1", x, 16, 1);         /* the output has three users */
    x = builder_relu(builder_name(&b, "r1"), fork); /* no operation absorbs this ReLU */
    x = builder_bn(builder_name(&b, "bn1"), x);
    x = builder_add(&b, x, fork); /* the batch norm before it absorbs this add */
    x = builder_add(&b, x, fork); /* no batch norm absorbs this add */
    x = builder_relu(builder_name(&b, "r2"), x);
    x = builder_maxpool(builder_name(&b, "pool"), x, 3, 2, 1);
    int main_path = builder_bn(builder_name(&b, "bn2"), conv(&b, "conv2", x, 16, 1));
    x = builder_add(&b, main_path, x);
    x = builder_flatten(&b, x);
    x = builder_dropout(builder_name(&b, "drop"), x, 0.5f);
    x = builder_linear(builder_name(&b, "fc1"), x, 12, INIT_UNIFORM_FAN_IN, INIT_UNIFORM_FAN_IN);
    x = builder_relu(builder_name(&b, "r3"), x);
    x = builder_dropout(builder_name(&b, "drop2"), x, 0.25f);
    builder_linear(builder_name(&b, "fc2"), x, CROSSROADS_CLASSES, INIT_UNIFORM_FAN_IN,
                   INIT_UNIFORM_FAN_IN);
    assert_ok(b.st);
    return b.g;
}
