/* Opens, closes and copies a replica: the network on one device. */
#include "engine/replica.h"

#include "model/exchange.h"

struct part part_of(int rows, int n, int i)
{
    int size = (rows + n - 1) / n;
    int first = i * size < rows ? i * size : rows;
    return (struct part){first, first + size < rows ? size : rows - first};
}

/* Sums batch norm's values over all devices and ranks; called on the thread that runs the
 * replica. If the sums are those of a single value, because other replicas added nothing, the value
 * counts twice: as within a batch, a bad image's place has a copy of a valid image. */
static enum status sum_over_ranks(void *context, double *values, int64_t n)
{
    struct replica *r = context;
    for (int64_t k = 0; k < n && r->blank; k++)
        values[k] = 0;
    TRY(comm_sum(r->sync_comm, values, n));
    double times = values[n - 1] == 1 ? 2 : 1;
    for (int64_t k = 0; k < n; k++)
        values[k] *= times;
    return STATUS_OK;
}

enum status replica_open(struct replica *r, int number, int replicas, struct device *dev,
                         const struct graph *g, const struct program_config base[USE_COUNT],
                         const int rows[USE_COUNT], struct comm *sync_comm)
{
    struct program_config config[USE_COUNT];
    int use[USE_COUNT], n = 0;
    *r = (struct replica){.number = number, .dev = dev, .lent = r->lent, .sync_comm = sync_comm};
    r->sync = (struct bn_sync){sum_over_ranks, r};
    for (int u = 0; u < USE_COUNT; u++) {
        r->part[u] = part_of(rows[u], replicas, number);
        if (r->part[u].count == 0)
            continue;
        use[n] = u;
        config[n] = base[u];
        config[n].batch = r->part[u].count;
        config[n].sync = sync_comm ? &r->sync : NULL;
        n++;
    }
    TRY(network_open(dev, g, config, n, &r->net));
    for (int i = 0; i < n; i++)
        r->program[use[i]] = network_program(r->net, i);
    return STATUS_OK;
}

void replica_close(struct replica *r)
{
    network_close(r->net);
    if (!r->lent)
        device_close(r->dev);
    *r = (struct replica){0};
}

static enum status copy_flat(struct replica *to, const struct replica *from, enum param_value v)
{
    size_t bytes;
    void *dst = network_flat(to->net, v, &bytes);
    const void *src = network_flat(from->net, v, &bytes);
    return to->dev->backend->copy(network_stream(to->net), dst, src, bytes);
}

enum status replica_copy(struct replica *to, const struct replica *from, bool momentum)
{
    size_t bytes;
    TRY(copy_flat(to, from, VALUE_WEIGHT));
    if (momentum)
        TRY(copy_flat(to, from, VALUE_MOMENTUM));
    void *dst = network_buffers(to->net, &bytes);
    TRY(to->dev->backend->copy(network_stream(to->net), dst, network_buffers(from->net, &bytes),
                               bytes));
    network_touched(to->net);
    return STATUS_OK;
}
