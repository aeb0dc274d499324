/* Fuzzes the readers of other programs' tables: nccl-tests' output, published results and
 * SuperBench's lines. */
#include "predict/prediction.h"
#include "results/nodes.h"
#include "results/published.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

enum table { NCCL, PUBLISHED, NODES };

static const char *const names[] = {
    [NCCL] = "nccl.txt", [PUBLISHED] = "published.csv", [NODES] = "nodes.jsonl", NULL};

static void nccl(void)
{
    struct nccl_table t;
    struct network_cost net = {.intra = {1e-5, 1e9},
                               .inter = {1e-5, 1e9},
                               .ranks_per_node = 1,
                               .table = &t,
                               .n_tables = 1};
    if (!fuzz_ok(nccl_table_load(fuzz_path(names[NCCL]), &t)) || !fuzz_ok(cost_from_tables(&net)))
        return;
    cost_allreduce(&net, t.ranks, 1);
    cost_allreduce(&net, t.ranks + 1, 1e18);
    if (!(net.intra.latency_s >= 0 && net.intra.bytes_per_s > 0 && net.inter.latency_s >= 0 &&
          net.inter.bytes_per_s > 0))
        abort();
}

static void published(void)
{
    struct published p = {0};
    struct source source;
    bool read = fuzz_ok(published_load(fuzz_path(names[PUBLISHED]), &p));
    for (int i = 0; read && i < p.n; i++) {
        for (int k = 0; k < p.series[i].n; k++)
            published_efficiency(&p.series[i], k);
        fuzz_ok(source_of_published(&p.series[i], &source));
    }
    published_free(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nodes nodes = {0};
    unsigned found = fuzz_files(data, size, names);
    if (found & 1u << NCCL)
        nccl();
    if (found & 1u << PUBLISHED)
        published();
    if (found & 1u << NODES) {
        fuzz_ok(nodes_read(fuzz_path(names[NODES]), &nodes));
        nodes_free(&nodes);
    }
    return 0;
}
