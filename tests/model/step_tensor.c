/* Reads and writes tensors of a program's steps. */
#include "step_tensor.h"

#include "net_rig.h"

#include "base/half.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Copies the tensor without rounding. */
static struct tensor_desc as_it_is(const struct step *s, int role)
{
    struct tensor_desc t = s->plan->desc.t[role];
    t.rounds = DTYPE_F32;
    t.raw = false;
    return t;
}

static bool is_narrow(const struct tensor_desc *t)
{
    return t->type == DTYPE_F16 || t->type == DTYPE_BF16;
}

void *step_tensor_read(const struct step *s, struct stream *stream, int role)
{
    struct tensor_desc t = as_it_is(s, role);
    int64_t n = tensor_count(&t);
    void *plain = malloc((size_t)n * dtype_size(t.type));
    assert_non_null(plain);
    assert_ok(tensor_download(stream, &t, s->arg[role], plain));
    if (!is_narrow(&t))
        return plain;
    const uint16_t *narrow = plain;
    float *wide = malloc((size_t)n * sizeof *wide);
    assert_non_null(wide);
    for (int64_t i = 0; i < n; i++)
        wide[i] = t.type == DTYPE_F16 ? f16_to_float(narrow[i]) : bf16_to_float(narrow[i]);
    free(plain);
    return wide;
}

void step_tensor_write(const struct step *s, struct stream *stream, int role, const void *plain)
{
    struct tensor_desc t = as_it_is(s, role);
    int64_t n = tensor_count(&t);
    if (!is_narrow(&t)) {
        assert_ok(tensor_upload(stream, &t, s->arg[role], plain));
        return;
    }
    const float *wide = plain;
    uint16_t *narrow = malloc((size_t)n * sizeof *narrow);
    assert_non_null(narrow);
    for (int64_t i = 0; i < n; i++)
        narrow[i] = t.type == DTYPE_F16 ? f16_from_float(wide[i]) : bf16_from_float(wide[i]);
    assert_ok(tensor_upload(stream, &t, s->arg[role], narrow));
    free(narrow);
}
