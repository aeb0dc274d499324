/* The process group of a job: its ranks, and the settings that all must share. */
#pragma once

#include "base/launcher.h"
#include "comm/comm.h"

#include <jansson.h>
#include <sched.h>

enum { HOST_NAME_MAX_LEN = 64 };

struct world_config {
    /* HOST:PORT of rank 0, for a job without MPI. NULL: the ranks connect by MPI, or at the
     * launcher's MASTER_ADDR and MASTER_PORT. */
    const char *rendezvous;
    enum comm_via via;           /* the same on all ranks; VIA_NCCL means VIA_AUTO */
    struct launcher_place place; /* at a rendezvous; size 0: the launcher's variables give it */
    const char *job; /* its name, if the launcher names none (launcher_job); NULL: no name */
    const char *secret_file; /* secret_file and insecure: see struct comm_tcp_config */
    bool insecure;
    double timeout_s; /* time limit of a wait for another rank; 0: none */
    double join_s;    /* time limit until all processes of an MPI job have joined; if this or
                       * timeout_s is 0: none */
    /* The mode uses one process: MPI is not used if the launcher started only one, as srun does for
     * a job of one task. */
    bool alone;
    bool blocking; /* see struct comm_mpi_config */
    /* See struct comm_mpi_config; may be NULL. */
    void (*ending)(void *context, enum status st, const char *message);
    void *context;
};

struct world_config world_config_default(void);

/* A rank's host, process and cores, which all ranks know. */
struct rank_info {
    char host[HOST_NAME_MAX_LEN];
    int32_t pid;
    cpu_set_t cores; /* cores that the rank may run on; empty: not known */
};

struct world {
    struct comm *comm; /* has one rank if there is only one process */
    int rank, size;
    struct launcher_place place; /* of struct world_config */
    struct rank_info *info;      /* (size) */
    char lacks[192]; /* why `comm` carries only control between processes; "": it carries data */
};

/* Whether the settings and the launcher's variables say that there is a job to join. */
bool world_launched(const struct world_config *c);

/* STATUS_USAGE if a launcher (torchrun, or srun without PMI) started several processes that cannot
 * find each other, unless `alone`: each would do all of the work. world_open fails so too. */
MUST_CHECK enum status world_check_launcher(const struct world_config *c);

/* Joins the other processes of the job. If there is no job, the world has one rank. */
MUST_CHECK enum status world_open(const struct world_config *c, struct world *w);
void world_close(struct world *w);

/* STATUS_UNSUPPORTED if the processes cannot exchange data in host memory: neither MPI nor Gloo
 * connects them, and `comm` carries only control. The message says which rank lacks Gloo, and why.
 */
MUST_CHECK enum status world_check_data(const struct world *w);

/* Whether MPI connects the processes; what does: "Open MPI 4.1.4", "gloo", "tcp". */
bool world_is_mpi(const struct world *w);
const char *world_network(const struct world *w);

/* Finds this rank's index among the ranks of its host: the launcher's value or, if it gives none,
 * by the ranks' host names. */
MUST_CHECK enum status world_local_rank(const struct world *w, int *local_rank);

/* The number of compute threads for each of this process's devices, at least 1: its cores, divided
 * by its devices and by the ranks on its host that may use the same cores. */
int world_threads(const struct world *w, int devices);

/* Adds this program's version and a checksum of its file to `settings`, and compares them with rank
 * 0's. If a setting differs, all ranks fail with STATUS_USAGE and the same message, which names the
 * rank, the setting and both values. */
MUST_CHECK enum status world_agree(struct world *w, json_t *settings);

/* A new JSON array of the ranks' hosts and processes (schema_is_rank_list). */
json_t *world_json(const struct world *w);

/* Broadcasts the `bytes` bytes at `data` from rank 0 to all ranks. */
MUST_CHECK enum status world_share(struct world *w, void *data, size_t bytes);

/* Broadcasts the text `own` of rank `rank`. Each rank gets a new copy at *text; NULL after a
 * failure. STATUS_DATA if the text has more than `max` bytes, including its NUL. */
MUST_CHECK enum status world_text(struct world *w, int rank, const char *own, int64_t max,
                                  char **text);
