/* Networks for tests. */
#include "net_rig.h"

#include "model/oracle_fill.h"

#include <math.h>
#include <sys/mman.h>

void assert_ok_at(enum status st, const char *file, int line)
{
    if (st == STATUS_OK)
        return;
    print_error("%s\n", status_message());
    _fail(file, line);
}

void net_rig_open(struct net_rig *r, const char *device, const char *arch, int classes,
                  int image_size, const struct program_config *config, int n)
{
    net_rig_open_on(r, net_rig_device(device), net_rig_graph(arch, classes, image_size), config, n);
}

void net_rig_open_on(struct net_rig *r, struct device *dev, struct graph *g,
                     const struct program_config *config, int n)
{
    r->dev = dev;
    r->graph = g;
    assert_ok(network_open(dev, g, config, n, &r->net));
}

struct device *net_rig_device(const char *name)
{
    struct device *dev;
    assert_ok(device_open(name, 2, &dev));
    return dev;
}

struct graph *net_rig_graph(const char *arch, int classes, int image_size)
{
    struct graph *g;
    assert_ok(graph_build(arch, classes, image_size, &g));
    return g;
}

enum { LAZY_HEAD = 4096 };

/* Maps pages of zeros. The first LAZY_HEAD bytes contain the size of the mapping. */
static enum status lazy_alloc(struct device *dev, size_t bytes, void **mem)
{
    (void)dev;
    size_t all = bytes + LAZY_HEAD;
    char *at =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return status_fail(STATUS_OOM, "no address space for %zu bytes", bytes);
    *(size_t *)(void *)at = all;
    *mem = at + LAZY_HEAD;
    return STATUS_OK;
}

static void lazy_free(struct device *dev, void *mem)
{
    (void)dev;
    if (!mem)
        return;
    char *at = (char *)mem - LAZY_HEAD;
    munmap(at, *(size_t *)(void *)at);
}

void net_rig_open_lazy(struct net_rig *r, const char *device, const char *arch, int classes,
                       int image_size, const struct program_config *config, int n)
{
    struct device *dev = net_rig_device(device);
    r->lazy = *dev->backend;
    r->lazy.alloc = lazy_alloc;
    r->lazy.free = lazy_free;
    dev->backend = &r->lazy;
    net_rig_open_on(r, dev, net_rig_graph(arch, classes, image_size), config, n);
}

void net_rig_close(struct net_rig *r)
{
    network_close(r->net);
    graph_free(r->graph);
    device_close(r->dev);
}

void net_rig_fill(struct net_rig *r)
{
    for (int i = 0; i < r->graph->n_params; i++) {
        const struct param *p = &r->graph->param[i];
        float *plain = malloc((size_t)param_count(p) * sizeof *plain);
        assert_non_null(plain);
        oracle_fill_param(p, plain);
        assert_ok(network_set(r->net, VALUE_WEIGHT, i, plain));
        free(plain);
    }
}

float *net_rig_get(const struct net_rig *r, enum param_value v, int i)
{
    float *plain = malloc((size_t)param_count(&r->graph->param[i]) * sizeof *plain);
    assert_non_null(plain);
    assert_ok(network_get(r->net, v, i, plain));
    return plain;
}

void net_rig_input(struct net_rig *r, struct program *p, int step)
{
    int batch = program_config(p)->batch, size = r->graph->image_size;
    float *images = malloc((size_t)batch * 3 * (size_t)size * (size_t)size * sizeof *images);
    int32_t *labels = malloc((size_t)batch * sizeof *labels);
    assert_true(images && labels);
    oracle_fill_images(step, batch, size, images);
    oracle_fill_labels(step, batch, r->graph->classes, labels);
    assert_ok(program_input(p, images, labels));
    assert_ok(program_wait(p));
    free(images);
    free(labels);
}

void net_rig_run(struct program *p, const struct step_state *state, enum phase last)
{
    assert_ok(program_state(p, state));
    for (int phase = PHASE_INPUT; phase <= (int)last; phase++)
        assert_ok(program_run(p, (enum phase)phase));
    assert_ok(program_wait(p));
}

void net_rig_assert_same(const struct net_rig *a, const struct net_rig *b, enum param_value v)
{
    for (int i = 0; i < a->graph->n_params; i++) {
        const struct param *p = &a->graph->param[i];
        if (v != VALUE_WEIGHT && !param_is_trained(p))
            continue;
        float *x = net_rig_get(a, v, i), *y = net_rig_get(b, v, i);
        if (memcmp(x, y, (size_t)param_count(p) * sizeof *x) != 0)
            fail_msg("value %d of '%s' differs", v, p->name);
        free(x);
        free(y);
    }
}

double net_rig_norm(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (b ? (double)b[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

void net_rig_assert_close(const struct net_rig *got, const struct net_rig *want, int i,
                          enum param_value v, double tolerance, double size)
{
    const struct param *p = &want->graph->param[i];
    float *a = net_rig_get(got, v, i), *b = net_rig_get(want, v, i);
    double off = net_rig_norm(a, b, param_count(p)), norm = net_rig_norm(b, NULL, param_count(p));
    if (!(off <= tolerance * (norm + size)))
        fail_msg("value %d of '%s': error %.3g, norm %.3g", v, p->name, off, norm);
    free(a);
    free(b);
}
