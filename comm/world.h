/* The process group of a job: its ranks, and the settings that all must share. */
#pragma once

#include "base/launcher.h"
#include "comm/comm.h"

#include <jansson.h>
#include <sched.h>

enum { HOST_NAME_MAX_LEN = 64 };

struct world_config {
    const char *rendezvous;      /* HOST:PORT of rank 0, to connect without MPI; NULL: by MPI, or at
                                  * the launcher's MASTER_ADDR and MASTER_PORT */
    enum comm_via via;           /* between processes NCCL counts as AUTO; the same on all ranks */
    struct launcher_place place; /* place of this process at a rendezvous; size 0: the launcher
                                  * gives it */
    const char *job;         /* the job's name if its launcher gives none (launcher_job); or NULL */
    const char *secret_file; /* for a rendezvous; see struct comm_tcp_config */
    bool insecure;           /* for a rendezvous; see struct comm_tcp_config */
    double timeout_s;        /* time limit of a wait for another rank; 0: none */
    double join_s;           /* time limit for all processes of an MPI job to join; none if this or
                              * timeout_s is 0 */
    bool alone;              /* the mode uses one process: a process that a launcher started alone,
                              * as srun does for a job of one task, does not join MPI */
    /* See struct comm_mpi_config; may be NULL. */
    void (*ending)(void *context, enum status st, const char *message);
    void *context;
};

struct world_config world_config_default(void);

/* A rank's host, process and cores, which all ranks know. */
struct rank_info {
    char host[HOST_NAME_MAX_LEN];
    int32_t pid;
    cpu_set_t cores; /* cores that it may run on; empty: not known */
};

struct world {
    struct comm *comm; /* has one rank if there is one process */
    int rank, size;
    struct launcher_place place; /* as configured; size 0: the launcher gives it */
    struct rank_info *info;      /* (size) */
};

/* Is there a job to join, by the settings and the launcher's variables? */
bool world_launched(const struct world_config *c);

/* STATUS_USAGE where a launcher started several processes that cannot find each other (torchrun, or
 * srun without PMI) and `alone` is not set: each would do all of the work, in the same folder. */
MUST_CHECK enum status world_check_launcher(const struct world_config *c);

/* Joins the other processes of a job; without one, the world has one rank. */
MUST_CHECK enum status world_open(const struct world_config *c, struct world *w);
void world_close(struct world *w);

/* Has MPI joined the processes? */
bool world_is_mpi(const struct world *w);

/* The library or protocol that connects the processes: "Open MPI 4.1.4", "gloo", "tcp". */
const char *world_network(const struct world *w);

/* This rank's index among the ranks of its host: from the launcher, or else from the names of the
 * hosts. */
MUST_CHECK enum status world_local_rank(const struct world *w, int *local_rank);

/* The number of compute threads for each of this process's devices: its cores, divided by its
 * devices and by the ranks of its host that may use the same cores; at least 1. */
int world_threads(const struct world *w, int devices);

/* Compares `settings`, which must be the same on every rank, with rank 0's; adds this program's
 * version and a checksum of its file. Where one differs, all ranks fail with the same STATUS_USAGE,
 * which names rank, setting and values. */
MUST_CHECK enum status world_agree(struct world *w, json_t *settings);

/* A new array of the ranks' hosts and processes, for schema_is_rank_list. NULL: no memory. */
json_t *world_json(const struct world *w);

/* Broadcasts rank 0's bytes. */
MUST_CHECK enum status world_share(struct world *w, void *data, size_t bytes);

/* Sums of n doubles over all ranks, in place. */
MUST_CHECK enum status world_sum(struct world *w, double *values, int n);

/* Sends text `own` of rank `rank`, of at most `max` bytes with its NUL, to all: a new copy at
 * *text, which the caller frees; NULL after a failure. STATUS_DATA for a longer text. */
MUST_CHECK enum status world_text(struct world *w, int rank, const char *own, int64_t max,
                                  char **text);
