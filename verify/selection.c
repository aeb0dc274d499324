/* Selects cases from the table of test cases (cases.h). */
#include "verify/selection.h"

#include "verify/precision.h"

#include "base/rng.h"

#include <string.h>

/* Whether the operation's CPU kernel has a version for each instruction set. False for operations
 * that a library computes. */
static bool depends_on_isa(const struct op_desc *d)
{
    if (op_in(d->kind, OPS_CONV | OPS_LINEAR | OP_SET(REORDER)))
        return false;
    return op_in(d->kind, OPS_BN | OPS_SGD | OP_SET(RELU_FWD) | OP_SET(RELU_BWD) | OP_SET(ADD) |
                              OP_SET(MAXPOOL_FWD) | OP_SET(ROUND)) ||
           precision_is_emulated(d) || precision_is_stored(d);
}

bool selection_has(const struct selection *s, int number, const struct op_case *c)
{
    for (int i = 0; i < s->n_without; i++)
        if (strstr(c->name, s->without[i]))
            return false;
    if (s->number >= 0)
        return s->number == number;
    if (number < s->first)
        return false;
    /* A hash assigns problems to parts. Without a hash, a part would get only some kinds, types and
     * fills, because they repeat periodically in the table. */
    int share = (int)(hash_splitmix64((uint64_t)c->problem) % (uint64_t)s->every);
    return share == s->share && (!s->depends_on_isa || depends_on_isa(&c->desc)) &&
           (!s->only || strstr(c->name, s->only)) &&
           (!s->kind || strcmp(op_str(c->desc.kind), s->kind) == 0);
}
