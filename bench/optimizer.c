/* Timing the optimizer's update of a network's parameters. */
#include "bench/optimizer.h"

#include "bench/timed_op.h"
#include "model/network.h"

#include <inttypes.h>
#include <string.h>

/* The update that training plans for a network, which holds what the description points to. */
static enum status find_update(const struct optimizer_config *c, const struct micro *m,
                               const struct graph *g, const char *precision, struct network **net,
                               const struct op_plan **update, bool *emulated)
{
    struct program_config config = {.batch = 1,
                                    .train = true,
                                    .emulate = c->emulate,
                                    .momentum = 0.5f,
                                    .weight_decay = 0x1p-10f,
                                    .mean = {0.5f, 0.5f, 0.5f},
                                    .std = {0.25f, 0.25f, 0.25f}};
    TRY(policy_find(precision, -1, &config.policy));
    enum dtype operand = config.policy.operand;
    *emulated = operand != DTYPE_F32 && (c->emulate || !device_native(m->dev, operand));
    TRY(network_open(m->dev, g, &config, 1, net));
    const struct program *p = network_program(*net, 0);
    for (int i = 0; i < program_steps(p); i++) {
        *update = program_step(p, i).plan;
        if ((*update)->desc.kind == OP_SGD)
            return STATUS_OK;
    }
    return status_fail(STATUS_INVALID, "no optimizer in a step of '%s'", g->arch);
}

static enum status sample(void *context, double *seconds)
{
    return timed_op_time(context, seconds);
}

enum status optimizer_measure(const struct optimizer_config *c, const struct micro *m,
                              const struct graph *g, const char *precision,
                              struct optimizer_row *row)
{
    const struct step_state state = {.lr = 1e-6f, .loss_scale = 1, .grad_scale = 1};
    const struct backend *b = m->dev->backend;
    const struct op_plan *update = NULL;
    struct network *net = NULL;
    struct timed_op t = {0};
    enum status st;
    *row = (struct optimizer_row){.precision = precision};
    CHECK(find_update(c, m, g, precision, &net, &update, &row->emulated));
    CHECK(timed_op_open(&t, m->stream, &update->desc, 1));
    CHECK(b->alloc(m->dev, sizeof state, &t.arg[ROLE_STATE]));
    CHECK(b->upload(m->stream, t.arg[ROLE_STATE], &state, sizeof state));
    row->parameters = tensor_count(&update->desc.t[ROLE_W]);
    row->segments = update->desc.attr.sgd.n_segments;
    row->bytes = roofline_bytes(&update->desc);
    snprintf(row->impl, sizeof row->impl, "%s", t.plan->impl);
    CHECK(harness_run(&c->timing, sample, &t, &row->time));
    CHECK(optimizer_check(&t, m->ref, &row->wrong));
done:
    timed_op_close(&t);
    network_close(net);
    return st;
}

/* --- what is printed --- */

static double bandwidth(const struct optimizer_row *row)
{
    return row->bytes / row->time.median;
}

static double share(const struct micro *m, const struct optimizer_row *row)
{
    return bandwidth(row) / roofline_bandwidth(&m->peaks, row->bytes);
}

static void print_head(const struct optimizer_config *c, const struct micro *m)
{
    if (c->format == BENCH_CSV)
        fprintf(c->out, "precision,emulated,parameters,segments,bytes,n,median_s,p5_s,p95_s,"
                        "gb_per_s,share,wrong,impl\n");
    else if (c->format == BENCH_TABLE)
        fprintf(c->out, "%s on %s\n%-14s %11s %8s %9s %9s %8s %5s %6s  %s\n", c->net, m->about,
                "precision", "parameters", "segments", "MiB", "ms", "GB/s", "share", "#wrong",
                "implementation");
}

static void print_row(const struct optimizer_config *c, const struct micro *m,
                      const struct optimizer_row *r)
{
    char name[32];
    if (c->format == BENCH_CSV)
        fprintf(c->out,
                "%s,%d,%" PRId64 ",%d,%.0f,%" PRId64 ",%.9g,%.9g,%.9g,%.6g,%.6g,%" PRId64 ",%s\n",
                r->precision, r->emulated, r->parameters, r->segments, r->bytes, r->time.n,
                r->time.median, r->time.p5, r->time.p95, bandwidth(r) * 1e-9, share(m, r), r->wrong,
                r->impl);
    if (c->format != BENCH_TABLE)
        return;
    snprintf(name, sizeof name, "%s%s", r->precision, r->emulated ? " emulated" : "");
    fprintf(c->out, "%-14s %11" PRId64 " %8d %9.1f %9.3f %8.1f %5.2f %6" PRId64 "  %s\n", name,
            r->parameters, r->segments, r->bytes / 1048576, r->time.median * 1e3,
            bandwidth(r) * 1e-9, share(m, r), r->wrong, r->impl);
}

static enum status print_json(const struct optimizer_config *c, const struct micro *m,
                              const struct optimizer_row *row, int n)
{
    json_t *record;
    TRY(micro_record(m, "optimizer", OPTIMIZER_SCHEMA, &record));
    json_t *rows = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(
            rows, json_pack("{s:s, s:b, s:I, s:i, s:f, s:o, s:f, s:f, s:I, s:s}", "precision",
                            row[i].precision, "emulated", row[i].emulated, "parameters",
                            (json_int_t)row[i].parameters, "segments", row[i].segments, "bytes",
                            row[i].bytes, "seconds", harness_json(&row[i].time), "gb_per_s",
                            bandwidth(&row[i]) * 1e-9, "share", share(m, &row[i]), "wrong",
                            (json_int_t)row[i].wrong, "impl", row[i].impl));
    json_object_set_new(record, "net", json_string(c->net));
    json_object_set_new(record, "peaks", peaks_json(&m->peaks));
    json_object_set_new(record, "rows", rows);
    micro_print(record, c->out);
    return STATUS_OK;
}

enum status bench_optimizer(const struct optimizer_config *c)
{
    enum { IMAGE_SIZE = 224 }; /* which the parameters do not depend on */
    struct optimizer_row row[OPTIMIZER_ROWS_MAX];
    struct micro m = {.dev = NULL};
    struct graph *g = NULL;
    int64_t wrong = 0;
    enum status st;
    CHECK(graph_build(c->net, 1000, IMAGE_SIZE, &g));
    CHECK(micro_open(c->devices, c->threads, &m));
    CHECK(micro_peaks(&m, c->peak));
    print_head(c, &m);
    for (int i = 0; i < c->n_precisions; i++) {
        CHECK(optimizer_measure(c, &m, g, c->precision[i], &row[i]));
        print_row(c, &m, &row[i]);
        wrong += row[i].wrong;
    }
    if (c->format == BENCH_JSON)
        CHECK(print_json(c, &m, row, c->n_precisions));
    if (wrong > 0)
        st = status_fail(STATUS_MISMATCH, "%" PRId64 " elements of the update are wrong", wrong);
done:
    micro_close(&m);
    graph_free(g);
    return st;
}
