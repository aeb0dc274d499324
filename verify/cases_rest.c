/* Adds cases of pooling, elementwise operations, the loss, SGD, normalisation and reorder. */
#include "verify/cases.h"
#include "verify/describe.h"

#include <stdio.h>

static void add_maxpool(struct case_list *list, const int s[4], const struct pool_attr *a)
{
    struct op_desc d[] = {
        describe_maxpool(OP_MAXPOOL_FWD, s[0], s[1], s[2], s[3], a, WITH(INDEX)),
        describe_maxpool(OP_MAXPOOL_FWD, s[0], s[1], s[2], s[3], a, 0),
        describe_maxpool(OP_MAXPOOL_BWD, s[0], s[1], s[2], s[3], a, 0),
        describe_maxpool(OP_MAXPOOL_BWD, s[0], s[1], s[2], s[3], a, WITH(DY2)),
    };
    for (size_t i = 0; i < sizeof d / sizeof *d; i++)
        cases_add(list, d[i], FILL_RANDOM);
    cases_add(list, d[0], FILL_NAN);
}

static void cases_maxpool(struct case_list *list)
{
    static const struct {
        int shape[4];
        struct pool_attr attr;
    } table[] = {
        {{2, 64, 28, 28}, {{3, 3}, {2, 2}, {1, 1}}},   {{1, 64, 7, 7}, {{3, 3}, {2, 2}, {1, 1}}},
        {{2, 3, 9, 11}, {{3, 3}, {2, 2}, {1, 1}}},     {{2, 64, 14, 14}, {{2, 2}, {2, 2}, {0, 0}}},
        {{1, 17, 7, 5}, {{2, 2}, {2, 2}, {0, 0}}},     {{2, 64, 15, 15}, {{3, 3}, {2, 2}, {0, 0}}},
        {{2, 16, 6, 6}, {{3, 3}, {1, 1}, {1, 1}}},     {{1, 8, 5, 8}, {{3, 2}, {1, 3}, {0, 1}}},
        {{1, 16, 20, 20}, {{16, 16}, {2, 4}, {8, 0}}}, {{2, 32, 1, 1}, {{1, 1}, {1, 1}, {0, 0}}},
        {{2, 24, 9, 9}, {{2, 2}, {3, 3}, {1, 1}}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        add_maxpool(list, table[i].shape, &table[i].attr);
}

/* Adds the average pooling before a linear layer: X or DX has any layout, and Y or DY has the plain
 * layout. */
static void add_avgpool_to_plain(struct case_list *list, const struct op_desc *d)
{
    enum role side = d->kind == OP_AVGPOOL_FWD ? ROLE_X : ROLE_DX;
    for (int layout = LAYOUT_NHWC; layout <= LAYOUT_NCHW16C; layout++) {
        struct op_desc mixed = *d;
        char text[32];
        if (!layout_fits(&d->t[side], (enum layout)layout))
            continue;
        mixed.t[side] = in_layout(d->t[side], (enum layout)layout);
        snprintf(text, sizeof text, "%s and plain", layout_str((enum layout)layout));
        cases_add_one(list, list->problems, mixed, FILL_RANDOM, text);
    }
    list->problems++;
}

static void cases_avgpool(struct case_list *list)
{
    static const int shape[][6] = {
        {2, 512, 7, 7, 1, 1}, {2, 64, 2, 2, 7, 7}, {2, 256, 6, 6, 6, 6}, {1, 16, 13, 13, 6, 6},
        {3, 20, 4, 4, 1, 1},  {1, 24, 1, 1, 6, 6}, {2, 5, 10, 8, 3, 5},  {1, 2048, 2, 2, 1, 1}};
    static const enum op_kind kind[] = {OP_AVGPOOL_FWD, OP_AVGPOOL_BWD};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int k = 0; k < 2; k++) {
            const int *s = shape[i];
            struct op_desc d = describe_avgpool(kind[k], s[0], s[1], s[2], s[3], s[4], s[5]);
            cases_add(list, d, FILL_RANDOM);
            add_avgpool_to_plain(list, &d);
        }
}

static void cases_elementwise(struct case_list *list)
{
    const struct tensor_desc shape[] = {
        tensor_1d(DTYPE_F32, 1), tensor_2d(DTYPE_F32, 3, 1000), plain_4d(2, 64, 7, 7),
        plain_4d(1, 17, 5, 3),   plain_4d(4, 64, 28, 28),       tensor_2d(DTYPE_F32, 5, 33),
    };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        cases_add(list, describe_like(OP_RELU_FWD, shape[i], 0), FILL_RANDOM);
        cases_add(list, describe_like(OP_RELU_FWD, shape[i], 0), FILL_NAN);
        cases_add(list, describe_like(OP_RELU_BWD, shape[i], 0), FILL_RANDOM);
        cases_add(list, describe_like(OP_RELU_BWD, shape[i], WITH(DY2)), FILL_RANDOM);
        cases_add(list, describe_like(OP_ADD, shape[i], 0), FILL_RANDOM);
    }
}

static void cases_add_strided(struct case_list *list)
{
    static const struct {
        int shape[4];
        struct grid_attr attr;
    } table[] = {
        {{2, 64, 14, 14}, {{2, 2}}}, {{1, 17, 7, 5}, {{2, 2}}}, {{2, 32, 9, 8}, {{3, 1}}},
        {{3, 16, 1, 1}, {{2, 2}}},   {{1, 8, 4, 6}, {{1, 1}}},  {{2, 264, 5, 33}, {{4, 2}}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const int *s = table[i].shape;
        cases_add(list, describe_add_strided(s[0], s[1], s[2], s[3], &table[i].attr), FILL_RANDOM);
    }
}

/* Cases of dropout. They have plain layouts only, because the mask depends on an element's index in
 * plain order. */
static void cases_dropout(struct case_list *list)
{
    const struct tensor_desc shape[] = {tensor_2d(DTYPE_F32, 4, 100), tensor_2d(DTYPE_F32, 3, 4096),
                                        tensor_2d(DTYPE_F32, 1, 1), plain_4d(2, 4, 3, 3),
                                        plain_4d(3, 256, 6, 6)};
    static const float p[] = {0, 0.5f, 0.3f};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (size_t k = 0; k < sizeof p / sizeof *p; k++) {
            struct op_desc forward = describe_like(OP_DROPOUT_FWD, shape[i], 0);
            struct op_desc backward = describe_like(OP_DROPOUT_BWD, shape[i], 0);
            forward.attr.dropout = backward.attr.dropout = (struct dropout_attr){p[k], (int)k};
            cases_add_one(list, list->problems++, forward, FILL_RANDOM, "plain");
            cases_add_one(list, list->problems++, backward, FILL_RANDOM, "plain");
        }
}

static void cases_xent(struct case_list *list)
{
    static const int shape[][2] = {{4, 10}, {8, 1000}, {1, 1}, {5, 3}, {128, 1000}, {1, 17}};
    static const float smoothing[] = {0, 0.1f, 1};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int k = 0; k < 3; k++)
            for (int gradient = 0; gradient < 2; gradient++) {
                struct op_desc d =
                    describe_xent(shape[i][0], shape[i][1], smoothing[k], gradient ? WITH(DX) : 0);
                cases_add(list, d, FILL_RANDOM);
                cases_add(list, d, FILL_NAN);
            }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++)
            for (int gradient = 0; gradient < 2; gradient++) {
                struct op_desc d = describe_xent(shape[i][0], shape[i][1], smoothing[k],
                                                 WITH(PARTNER) | (gradient ? WITH(DX) : 0));
                cases_add(list, d, FILL_RANDOM);
                cases_add(list, d, FILL_NAN);
            }
}

static void cases_sgd(struct case_list *list)
{
    static const struct sgd_segment one[] = {{0, 1, 1e-4f}}, many[] = {{0, 7, 1e-2f},
                                                                       {7, 7, 1},
                                                                       {7, 40, 0},
                                                                       {40, 1000, 1e-4f},
                                                                       {1000, 100003, 5e-4f}};
    /* LARS segments of less than one chunk and of several chunks, and segments without LARS. */
    static const struct sgd_segment lars[] = {
        {.end = 7, .weight_decay = 1e-2f, .trust = 0.02f},
        {.begin = 7, .end = 7, .trust = 1},
        {.begin = 7, .end = 40, .weight_decay = 1e-4f},
        {.begin = 40, .end = 70000, .weight_decay = 1e-4f, .trust = 0.001f},
        {.begin = 70000, .end = 100003, .trust = 0.001f}};
    static const struct {
        int n, n_segments;
        const struct sgd_segment *segment;
    } buffer[] = {{1, 1, one}, {40, 3, many}, {100003, 5, many}, {40, 3, lars}, {100003, 5, lars}};
    for (size_t i = 0; i < sizeof buffer / sizeof *buffer; i++)
        for (int k = 0; k < 3; k++) {
            struct sgd_attr attr = {.momentum = k ? 0.9f : 0,
                                    .nesterov = k == 2,
                                    .n_segments = buffer[i].n_segments,
                                    .segment = buffer[i].segment};
            struct op_desc d = describe_sgd(buffer[i].n, &attr);
            cases_add(list, d, FILL_RANDOM);
            cases_add(list, d, FILL_FOUND_INF);
        }
    /* Two sizes with a clipping limit below the gradient's norm; the larger size also with a limit
     * above the norm. */
    for (int k = 0; k < 3; k++) {
        struct sgd_attr attr = {.momentum = 0.9f,
                                .clip = k == 2 ? 1e6f : 0.5f,
                                .n_segments = k ? 5 : 3,
                                .segment = many};
        struct op_desc d = describe_sgd(k ? 100003 : 40, &attr);
        cases_add(list, d, FILL_RANDOM);
        cases_add(list, d, FILL_FOUND_INF);
    }
}

static void cases_normalize(struct case_list *list)
{
    static const struct {
        int shape[3];
        uint64_t with;
    } table[] = {
        {{2, 8, 8}, 0},
        {{1, 7, 5}, 0},
        {{3, 64, 64}, 0},
        {{1, 1, 1}, 0},
        {{4, 8, 8}, WITH(PARTNER)},
        {{5, 7, 5}, WITH(PARTNER)},
        {{3, 5, 200}, WITH(PARTNER)},
        {{1, 1, 1}, WITH(PARTNER)},
    };
    static const enum layout layout[] = {LAYOUT_PLAIN, LAYOUT_NHWC, LAYOUT_ANY};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const int *s = table[i].shape;
        for (size_t k = 0; k < sizeof layout / sizeof *layout; k++) {
            struct op_desc d = describe_normalize(s[0], s[1], s[2], table[i].with);
            d.t[ROLE_Y] = in_layout(d.t[ROLE_Y], layout[k]);
            cases_add_one(list, list->problems, d, FILL_RANDOM, layout_str(layout[k]));
        }
        list->problems++;
    }
}

static void cases_reorder(struct case_list *list)
{
    const struct tensor_desc shape[] = {plain_4d(2, 64, 5, 7),       plain_4d(1, 24, 3, 3),
                                        plain_4d(3, 3, 8, 9),        plain_4d(1, 1, 1, 1),
                                        tensor_2d(DTYPE_F32, 5, 12), tensor_1d(DTYPE_F32, 100)};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        for (int from = LAYOUT_PLAIN; from <= LAYOUT_NCHW16C; from++)
            for (int to = LAYOUT_PLAIN; to <= LAYOUT_NCHW16C; to++) {
                struct op_desc d = describe_like(OP_REORDER, shape[i], 0);
                char text[32];
                if (!layout_fits(&shape[i], (enum layout)from) ||
                    !layout_fits(&shape[i], (enum layout)to))
                    continue;
                d.t[ROLE_X] = in_layout(shape[i], (enum layout)from);
                d.t[ROLE_Y] = in_layout(shape[i], (enum layout)to);
                snprintf(text, sizeof text, "%s to %s", layout_str((enum layout)from),
                         layout_str((enum layout)to));
                cases_add_one(list, list->problems, d, FILL_RANDOM, text);
            }
        list->problems++;
    }
}

void cases_rest(struct case_list *list)
{
    cases_maxpool(list);
    cases_avgpool(list);
    cases_elementwise(list);
    cases_add_strided(list);
    cases_dropout(list);
    cases_xent(list);
    cases_sgd(list);
    cases_normalize(list);
    cases_reorder(list);
}
