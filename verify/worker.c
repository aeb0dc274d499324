/* Selects cases from the table of test cases (cases.h), and runs them in this process. */
#include "verify/worker.h"

#include "base/rng.h"
#include "kernels/cpu/internal.h"
#include "kernels/cpu/kernels.h"
#include "kernels/device_list.h"
#include "verify/precision.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERRORS_MAX = 3 }; /* consecutive errors after which a worker stops */

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

/* Makes the device use the kernels for instruction set `isa`. STATUS_DATA if the processor does not
 * support `isa`. */
static enum status use_isa(struct device *dev, const char *isa)
{
    static const struct cpu_kernels *const table[] = {
        &cpu_kernels_generic,
#if defined(__x86_64__)
        &cpu_kernels_avx2,
        &cpu_kernels_avx512,
#endif
    };
    if (dev->backend != &backend_cpu)
        return status_fail(STATUS_USAGE, "--isa is only for the device 'cpu'");
    struct cpu_device *cpu = cpu_device_of(dev);
    bool included = true;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i]->isa, isa) == 0 && !included)
            return status_fail(STATUS_DATA, "this machine has '%s' but not '%s'", cpu->kernels->isa,
                               isa);
        if (strcmp(table[i]->isa, isa) == 0) {
            cpu->kernels = table[i];
            return STATUS_OK;
        }
        included = included && table[i] != cpu->kernels;
    }
    return status_fail(STATUS_USAGE, "--isa: this build has no kernels for '%s'", isa);
}

enum status worker_open(const struct worker_config *c, struct device **dev)
{
    char why[STATUS_MESSAGE_MAX];
    enum status st = device_open(c->devices, c->threads, dev);
    if (st != STATUS_OK && st != STATUS_USAGE && st != STATUS_OOM) {
        snprintf(why, sizeof why, "%s", status_message());
        return status_fail(STATUS_DATA, "%s", why);
    }
    TRY(st);
    if ((*dev)->backend == &backend_cpu)
        cpu_device_of(*dev)->stream_bytes = CASES_STREAM_BYTES;
    st = device_choose_conv(*dev, c->conv_algorithm, DTYPE_F32);
    if (st == STATUS_OK && c->isa)
        st = use_isa(*dev, c->isa);
    if (st != STATUS_OK)
        device_close(*dev);
    return st;
}

enum status worker_try(struct device *dev)
{
    enum { BYTES = 256 };
    const struct backend *b = dev->backend;
    struct stream *s = NULL;
    void *memory = NULL;
    enum status st;
    CHECK(b->alloc(dev, BYTES, &memory));
    CHECK(b->stream_open(dev, &s));
    CHECK(b->zero(s, memory, BYTES));
    CHECK(b->stream_sync(s));
done:
    b->stream_close(s);
    b->free(dev, memory);
    return st;
}

/* Fails if the cases after the last one cannot be tested in this process. */
static enum status check_usable(const struct comparison *h)
{
    if (h->errors_in_row == 0)
        return STATUS_OK;
    if (worker_try(h->dev) != STATUS_OK)
        return status_context(STATUS_LIBRARY, "the device does not work after this error");
    if (h->errors_in_row < ERRORS_MAX)
        return STATUS_OK;
    return status_fail(STATUS_LIBRARY, "stopped after %d errors in a row", ERRORS_MAX);
}

enum status worker_run(const struct worker_config *c, const char *dir)
{
    struct comparison h = {.problem.number = -1, .steps = true, .fault = c->fault};
    struct case_list list = {0};
    enum status st = STATUS_OK;
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that printed lines are not lost in a crash */
    if (setenv("XDG_CACHE_HOME", dir, 1) != 0)
        return status_fail(STATUS_OOM, "cannot set an environment variable: %s", strerror(errno));
    CHECK(case_list_new(&list));
    CHECK(device_open("ref", 1, &h.ref));
    CHECK(worker_open(c, &h.dev));
    h.dev->plans = 1; /* values are judged, not speed: nothing is timed */
    for (int i = 0; i < list.n; i++)
        if (selection_has(&c->selection, i, &list.item[i])) {
            comparison_run(&h, i, &list.item[i]);
            CHECK(check_usable(&h));
        }
    puts("done");
    if (h.failed)
        st = status_fail(STATUS_MISMATCH, "%d results are wrong or missing", h.failed);
done:
    comparison_close(&h);
    device_close(h.dev);
    device_close(h.ref);
    case_list_free(&list);
    return st;
}
