/* Fuzzes the readers of other programs' tables: nccl-tests' output, published results, ncu's CSV,
 * and SuperBench's lines. */
#include "bench/profile_ncu.h"
#include "predict/nccl_table.h"
#include "predict/prediction_source.h"
#include "results/nodes.h"
#include "results/published.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum table { NCCL, PUBLISHED, NCU, NODES };

static const char *const names[] = {[NCCL] = "nccl.txt",
                                    [PUBLISHED] = "published.csv",
                                    [NCU] = "ncu.csv",
                                    [NODES] = "nodes.jsonl",
                                    NULL};

static const char *path_of(enum table table)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", fuzz_dir(), names[table]);
    return path;
}

static void nccl(void)
{
    struct nccl_table t;
    double latency, per_byte;
    enum status st = nccl_table_load(path_of(NCCL), &t);
    fuzz_refused(st);
    if (st != STATUS_OK)
        return;
    nccl_table_at(&t, 1);
    nccl_table_at(&t, 1e18);
    nccl_table_fit(&t, &latency, &per_byte);
    if (!(latency >= 0 && per_byte >= 0))
        abort();
}

static void published(void)
{
    struct published p = {0};
    struct source source;
    enum status st = published_load(path_of(PUBLISHED), &p);
    fuzz_refused(st);
    for (int i = 0; st == STATUS_OK && i < p.n; i++) {
        for (int k = 0; k < p.series[i].n; k++)
            published_efficiency(&p.series[i], k);
        fuzz_refused(source_of_published(&p.series[i], &source));
    }
    published_free(&p);
}

/* ncu_parse expects a text that ends with NUL, as file_read returns it. */
static void ncu(const uint8_t *data, size_t size)
{
    struct ncu_kernel *kernel;
    int n;
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    fuzz_refused(ncu_parse(text, &kernel, &n));
    free(kernel);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nodes nodes = {0};
    unsigned found = fuzz_files(data, size, names);
    if (found & 1u << NCCL)
        nccl();
    if (found & 1u << PUBLISHED)
        published();
    if (found & 1u << NCU)
        ncu(data, size);
    if (found & 1u << NODES) {
        fuzz_refused(nodes_read(path_of(NODES), &nodes));
        nodes_free(&nodes);
    }
    return 0;
}
