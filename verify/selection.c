/* Choosing cases. */
#include "verify/selection.h"

#include "verify/precision.h"

#include "base/rng.h"

#include <string.h>

/* Operations that the library computes have one form; all that round have several. */
static bool depends_on_isa(const struct op_desc *d)
{
    switch (d->kind) {
    case OP_CONV_FWD:
    case OP_CONV_BWD_DATA:
    case OP_CONV_BWD_WEIGHTS:
    case OP_LINEAR_FWD:
    case OP_LINEAR_BWD_DATA:
    case OP_LINEAR_BWD_WEIGHTS:
    case OP_REORDER:
        return false;
    case OP_BN_FWD_TRAIN:
    case OP_BN_FWD_EVAL:
    case OP_BN_BWD:
    case OP_RELU_FWD:
    case OP_RELU_BWD:
    case OP_ADD:
    case OP_MAXPOOL_FWD:
    case OP_SGD:
    case OP_CHECK_FINITE:
    case OP_ROUND:
        return true;
    default:
        return precision_is_emulated(d) || precision_is_stored(d);
    }
}

/* The table repeats kinds, types and fills with a period: shares are drawn, so that none has a
 * pattern. */
static int share_of(const struct selection *s, const struct op_case *c)
{
    return (int)(hash_splitmix64((uint64_t)c->problem) % (uint64_t)s->every);
}

bool selection_has(const struct selection *s, int number, const struct op_case *c)
{
    for (int i = 0; i < s->n_without; i++)
        if (strstr(c->name, s->without[i]))
            return false;
    if (s->number >= 0)
        return s->number == number;
    return share_of(s, c) == s->share && (!s->depends_on_isa || depends_on_isa(&c->desc)) &&
           (!s->only || strstr(c->name, s->only)) &&
           (!s->kind || strcmp(op_str(c->desc.kind), s->kind) == 0);
}
