/* Acceptance over many nodes: judges results on disk, or runs as the ranks of a job, each of which
 * runs the test suite on its own node.
 *
 * A rank's test suite is a process of its own, so that the rank can report how the test suite
 * ended. Each check of the test suite is a process of its own, too. A rank joins MPI only after its
 * test suite has ended: a crash or a hang on a node does not stop the other nodes, and each node's
 * folder has the node's measurements so far. No rank waits indefinitely: if the ranks do not all
 * join, rank 0 judges the nodes' folders that it can see. The launcher's variables are removed from
 * the test suites' environment, because a test suite must not act as a rank. */
#pragma once

#include "accept/accept_suite.h"

struct fleet_options {
    double within, warn_within; /* percent; used if there is no spec */
    double wait_s;   /* seconds that rank 0 waits for the other ranks; 0: one hour plus twice the
                      * planned time. The other ranks wait twice as long */
    const char *out; /* folder of the reports and of the nodes' folders; NULL: none */
    bool strict;
};

/* Judges the results in `path` (fleet_job.c) by the named spec (NULL: the spec of the results)
 * and prints. `expect`: a file with the names of nodes that must have results, or NULL. Sets *code
 * to the result of verdict_exit_code. */
MUST_CHECK enum status fleet_judge_paths(const struct fleet_options *o, const char *const *path,
                                         int n, const char *spec, const char *expect, int *code);

/* The work of each rank of a job: it runs the test suite on its node, in OUT/<node>; when all test
 * suites have ended, rank 0 judges the fleet as fleet_judge_paths does, and sets *code. `command`
 * is the test suite's command line, without the node's folder. STATUS_DATA on ranks other than 0 if
 * the ranks do not all join in time. */
MUST_CHECK enum status fleet_run_rank(const struct fleet_options *o, const struct accept_spec *spec,
                                      const struct accept_options *options,
                                      const struct words *command, int *code);

/* Moves the launcher's variables from the environment into `kept`, as NAME=value: a test suite and
 * its checks must run as jobs of their own. */
MUST_CHECK enum status fleet_leave_job(struct words *kept);

/* The name of the node of rank `rank` of a job in the folder of a fleet: the name of its host,
 * followed by a number if the rank is not the first rank on that host. info[0..rank] has the hosts
 * of the ranks. */
struct rank_info;
void fleet_rank_name(const struct rank_info *info, int rank, char *out, size_t size);
