/* Networks for tests. */
#include "net_rig.h"

#include "model/oracle_fill.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

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
    assert_ok(device_open(device, 2, &r->dev));
    assert_ok(graph_build(arch, classes, image_size, &r->graph));
    assert_ok(network_open(r->dev, r->graph, config, n, &r->net));
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
    assert_ok(device_open(device, 2, &r->dev));
    r->lazy = *r->dev->backend;
    r->lazy.alloc = lazy_alloc;
    r->lazy.free = lazy_free;
    r->dev->backend = &r->lazy;
    assert_ok(graph_build(arch, classes, image_size, &r->graph));
    assert_ok(network_open(r->dev, r->graph, config, n, &r->net));
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
