/* Cases of batch norm: every combination of fused operations, shapes from many values per channel
 * down to two, and inputs for which the variance would be inexact if it were computed as
 * E[x^2] - E[x]^2. */
#include "verify/cases.h"
#include "verify/describe.h"

/* n, c, h, w */
static const int small[][4] = {{2, 64, 7, 7}, {3, 17, 9, 5}};
static const int others[][4] = {
    {2, 64, 28, 28}, {1, 64, 56, 56}, {4, 32, 14, 14}, {4, 256, 2, 2},  {2, 64, 1, 1},
    {1, 16, 1, 2},   {2, 3, 1, 1},    {2, 3, 5, 7},    {16, 512, 1, 1}, {1, 8, 33, 31},
    {33, 16, 3, 3},  {2, 64, 25, 23}}; /* the last shape has more than CASES_STREAM_BYTES */

static void add_forward(struct case_list *list, const int s[4], bool relu, uint64_t with,
                        enum fill fill)
{
    cases_add(list, describe_bn(OP_BN_FWD_TRAIN, s[0], s[1], s[2], s[3], relu, with), fill);
    cases_add(list, describe_bn(OP_BN_FWD_EVAL, s[0], s[1], s[2], s[3], relu, with), fill);
}

static void add_backward(struct case_list *list, const int s[4], bool relu, uint64_t with,
                         enum fill fill)
{
    cases_add(list, describe_bn(OP_BN_BWD, s[0], s[1], s[2], s[3], relu, with), fill);
}

static void add_all(struct case_list *list, const int s[4], enum fill fill)
{
    for (int relu = 0; relu < 2; relu++) {
        add_forward(list, s, relu, 0, fill);
        add_forward(list, s, relu, WITH(Z), fill);
        add_backward(list, s, relu, 0, fill);
        add_backward(list, s, relu, WITH(DY2), fill);
        add_backward(list, s, relu, WITH(DZ), fill);
        add_backward(list, s, relu, WITH(DY2) | WITH(DZ), fill);
    }
}

static void add_some(struct case_list *list, const int s[4], enum fill fill)
{
    add_forward(list, s, false, 0, fill);
    add_forward(list, s, true, WITH(Z), fill);
    add_backward(list, s, false, 0, fill);
    add_backward(list, s, true, WITH(DY2) | WITH(DZ), fill);
}

void cases_bn(struct case_list *list)
{
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        add_all(list, small[i], FILL_RANDOM);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        add_some(list, others[i], FILL_RANDOM);
    static const int hard[][4] = {
        {2, 64, 28, 28}, {8, 16, 7, 7}, {3, 5, 9, 9}, {16, 64, 1, 1}, {1, 16, 112, 112}};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        add_some(list, hard[i], FILL_LARGE_MEAN);
    add_some(list, (const int[]){2, 64, 5, 5}, FILL_CONSTANT);
    add_some(list, (const int[]){2, 3, 4, 4}, FILL_CONSTANT);
    /* The ReLU must pass a NaN on to Y, and the NaN must not change other channels. */
    add_forward(list, (const int[]){2, 32, 5, 5}, true, 0, FILL_NAN);
    add_forward(list, (const int[]){2, 3, 4, 4}, true, WITH(Z), FILL_NAN);
}
