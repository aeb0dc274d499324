/* The process that ncu looks at: one step, operation by operation, and what its operations are. */
#include "bench/peak.h"
#include "bench/profile.h"

#include <math.h>

static enum status run_marked(struct network *net, const struct backend *be)
{
    struct program *p = network_program(net, 0);
    struct stream *s = network_stream(net);
    TRY(be->profile(s, PROFILE_BEGIN));
    for (int i = 0; i < program_steps(p); i++) {
        TRY(be->profile(s, PROFILE_MARK));
        TRY(program_run_step(p, i));
    }
    TRY(program_wait(p));
    return be->profile(s, PROFILE_END);
}

static json_t *op_json(const struct peaks *peaks, const struct step_info *s)
{
    const struct op_desc *d = &s->plan->desc;
    struct bound bound = roofline_bound(peaks, d);
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:f, s:f}", "layer", s->layer, "phase",
                          phase_str(s->phase), "op", op_str(d->kind), "impl", s->plan->impl,
                          "bytes", roofline_bytes(d), "flops", op_flops(d));
    if (o && !isnan(bound.seconds)) {
        json_object_set_new(o, "bound", json_string(bound.compute ? "compute" : "memory"));
        json_object_set_new(o, "bound_s", json_real(bound.seconds));
    }
    return o;
}

static enum status print_step(const struct bench_net_config *c, struct device *dev,
                              struct network *net, const struct peaks *peaks)
{
    struct program *p = network_program(net, 0);
    json_t *ops = json_array(), *record;
    char about[256];
    for (int i = 0; i < program_steps(p); i++) {
        struct step_info s = program_step(p, i);
        json_array_append_new(ops, op_json(peaks, &s));
    }
    dev->backend->describe(dev, about, sizeof about);
    record =
        json_pack("{s:s, s:o, s:o}", "device", about, "peaks", peaks_json(peaks), "steps", ops);
    if (!record)
        return status_fail(STATUS_OOM, "no memory for the step's operations");
    json_dumpf(record, c->out, JSON_INDENT(1));
    fputc('\n', c->out);
    json_decref(record);
    return STATUS_OK;
}

enum status bench_profile_step(const struct bench_net_config *c)
{
    struct device *dev = NULL;
    struct graph *graph = NULL;
    struct network *net = NULL;
    struct peaks peaks;
    enum status st;
    CHECK(graph_build(c->net, 1000, c->image_size, &graph));
    CHECK(device_open(c->devices, c->threads, &dev));
    if (!dev->backend->profile) {
        st = status_fail(STATUS_DATA, "there is no profiler of the device '%s'", c->devices);
        goto done;
    }
    CHECK(c->peak ? peaks_read(c->peak, &peaks) : peak_measure(dev, c->rounds, 0, &peaks));
    CHECK(noise_step_open(dev, graph, c, &net));
    CHECK(run_marked(net, dev->backend));
    CHECK(print_step(c, dev, net, &peaks));
done:
    network_close(net);
    device_close(dev);
    graph_free(graph);
    return st;
}
