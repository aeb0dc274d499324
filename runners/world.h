/* The processes of a run, and what they must agree on. */
#ifndef RUNNERS_WORLD_H
#define RUNNERS_WORLD_H

#include "comm/comm.h"
#include "kernels/device_list.h"
#include "runners/config.h"

#include <jansson.h>
#include <sched.h>

enum { HOST_NAME_MAX_LEN = 64 };

/* A rank, as all others know it. */
struct rank_info {
    char host[HOST_NAME_MAX_LEN];
    int32_t pid;
    cpu_set_t cores; /* that it may run on; none where that is not known */
};

struct world {
    struct comm *comm; /* of one rank where there is one process */
    enum train_mode mode;
    int rank, size;
    struct rank_info *info; /* (size) */
};

/* STATUS_USAGE where a launcher started several processes and they have no way to find each other,
 * though the mode does not say that each is to train alone: all would do the same work, in the same
 * folder. It is so with torchrun, and with srun without PMI. */
MUST_CHECK enum status world_check_launcher(const struct train_config *c);

/* Joins the other processes where the mode asks for it. Mode "auto" is what the launcher and the
 * number of devices say. STATUS_USAGE where mode, devices and launcher do not fit together. */
MUST_CHECK enum status world_open(const struct train_config *c, const struct device_list *devices,
                                  struct world *w);
void world_close(struct world *w);

/* What the processes talk through: "Open MPI 4.1.4", "tcp". */
const char *world_network(const struct world *w);

/* Which of its host's ranks this one is, from 0: as the launcher says, else by the hosts' names. */
MUST_CHECK enum status world_local_rank(const struct world *w, int *local_rank);

/* Compute threads of each of this process's devices: as configured, or an equal share of the cores
 * that it may use among the devices and among the ranks that may use the same. */
int world_threads(const struct world *w, const struct train_config *c, int devices);

/* Every rank brings an object of settings that must be the same everywhere; this program's version
 * and file are added to it. Where one differs, all ranks fail with the same STATUS_USAGE, which
 * names rank, setting and values. */
MUST_CHECK enum status world_agree(struct world *w, json_t *settings);

/* A new array of the ranks' hosts and processes, as schema_is_rank_list says. NULL without memory.
 */
json_t *world_json(const struct world *w);

/* Rank 0's bytes to all. */
MUST_CHECK enum status world_share(struct world *w, void *data, size_t bytes);

/* Sums of n doubles over all ranks, in place. */
MUST_CHECK enum status world_sum(struct world *w, double *values, int n);

#endif
