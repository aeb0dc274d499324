/* The backend of broken.h. */
#include "broken.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum status wrong_execute(struct op_plan *p, void *const arg[ROLE_COUNT], struct stream *s)
{
    const struct broken *b = (const struct broken *)p->device->backend;
    TRY(b->execute(p, arg, s));
    ((float *)arg[b->role])[tensor_count(&p->desc.t[b->role]) - 1] += 1;
    return STATUS_OK;
}

static enum status wrong_plan(struct device *dev, const struct op_desc *d, struct op_plan **p)
{
    struct broken *b = (struct broken *)dev->backend;
    TRY(b->plan(dev, d, p));
    b->execute = (*p)->execute;
    (*p)->execute = wrong_execute;
    return STATUS_OK;
}

struct device *broken_open(struct broken *b, enum op_kind kind, enum role role)
{
    const struct backend *cpu;
    struct device *dev;
    assert_int_equal(backend_find("cpu", &cpu), STATUS_OK);
    *b = (struct broken){.base = *cpu, .kind = kind, .role = role};
    assert_true((size_t)cpu->n_records < sizeof b->record / sizeof *b->record);
    memcpy(b->record + 1, cpu->record, (size_t)cpu->n_records * sizeof *b->record);
    for (int i = 0; i < cpu->n_records; i++)
        if (op_in(kind, cpu->record[i].kinds))
            b->plan = cpu->record[i].plan;
    b->record[0] = (struct op_record){UINT64_C(1) << kind, ~0u, ~0u, wrong_plan};
    b->base.n_records++;
    b->base.record = b->record;
    assert_int_equal(cpu->open(cpu, 0, 1, &dev), STATUS_OK);
    dev->backend = &b->base;
    return dev;
}
