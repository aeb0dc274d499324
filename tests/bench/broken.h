/* The cpu backend with a fault: one kind of operation computes a wrong last element. */
#pragma once

#include "kernels/backend.h"

struct broken {
    struct backend base;
    enum op_kind kind;
    enum role role; /* fp32 tensor of `kind` whose last element is 1 too large */
    /* The functions of the backend that the broken functions replace. */
    enum status (*plan)(struct device *dev, const struct op_desc *desc, struct op_plan **plan);
    enum status (*execute)(struct op_plan *plan, void *const arg[ROLE_COUNT], struct stream *s);
    struct op_record record[2 * OP_KIND_COUNT];
};

/* Opens a device with this fault. `b` must live as long as the device. */
struct device *broken_open(struct broken *b, enum op_kind kind, enum role role);
