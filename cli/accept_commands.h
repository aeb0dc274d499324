/* Inside cli/: acceptance over many nodes, whose flags are among those of `ampscale accept`. */
#ifndef CLI_ACCEPT_COMMANDS_H
#define CLI_ACCEPT_COMMANDS_H

#include "accept/battery.h"
#include "accept/jsonl.h"
#include "base/words.h"
#include "launch/hosts.h"

#include <argp.h>
#include <stdbool.h>

enum { ACCEPT_PATHS_MAX = 4096 };

/* --node-list and what goes with it. */
struct accept_fleet_args {
    int n;                              /* 0: --node-list was not given */
    const char *path[ACCEPT_PATHS_MAX]; /* (n) files and folders of results */
    const char *expect;                 /* a file of names; NULL: whoever is there */
    double within, warn_within;         /* percent */
    double wait_s; /* that a rank waits for the others; 0: an hour and twice the plan */
};
extern const struct argp accept_fleet_argp; /* positional arguments are the caller's */
struct accept_fleet_args accept_fleet_default(void);
MUST_CHECK enum status accept_fleet_path(struct accept_fleet_args *a, const char *path);

/* Judges the nodes by the spec (NULL: by that of their results) and prints; `out` (NULL: none) gets
 * the reports. *code: what it comes to. */
MUST_CHECK enum status accept_fleet_work(const struct accept_fleet_args *a, const char *spec,
                                         const char *out, bool strict, int *code);

/* The same of results at hand; nodes of `expected` (which may have none) have to be among them. */
MUST_CHECK enum status accept_fleet_judge(const struct accept_fleet_args *a,
                                          const struct fleet_input *in,
                                          const struct accept_spec *spec,
                                          const struct launch_hosts *expected, const char *out,
                                          bool strict, int *code);

/* What each rank of a job does: the battery on its node, in OUT/<node>; when all have ended theirs,
 * rank 0 judges the fleet as above, and has the code. `command` is the battery's, but for its
 * folder. STATUS_DATA on another rank than 0 where the ranks do not meet in time. */
MUST_CHECK enum status accept_rank_work(const struct accept_fleet_args *a,
                                        const struct accept_spec *spec,
                                        const struct accept_options *options,
                                        const struct words *command, bool strict, int *code);

/* Takes what a launcher says of its job out of the environment, into `kept` as NAME=value: a
 * battery and its checks are runs of their own, wherever they are started. */
MUST_CHECK enum status accept_leave_job(struct words *kept);

/* The name of a process's node in the folder of a fleet: its host's, and a number where it is not
 * the first rank there. */
void accept_node_name(const char *host, int local_rank, char *out, size_t size);

#endif
