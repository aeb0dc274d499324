/* The hosts of a job and how many ranks each takes, from the command line or from a file. */
#ifndef LAUNCH_HOSTS_H
#define LAUNCH_HOSTS_H

#include "base/status.h"
#include "base/words.h"

#include <stdbool.h>

enum { HOST_NAME_SIZE = 256, HOST_SLOTS_MAX = 65536 };

/* The variable by which the ranks of a launch know the hosts that it was told of: "h1:4,h2:4". */
#define LAUNCH_HOSTS_VARIABLE "AMPSCALE_HOSTS"

struct launch_host {
    char name[HOST_NAME_SIZE];
    int slots; /* ranks it takes */
};

/* Begins as {0}. A host that is named again gets the further slots too. */
struct launch_hosts {
    struct launch_host *v; /* (n) */
    int n;
};

/* Adds the hosts of "h1:4,h2:4"; a host without a number takes one rank. STATUS_USAGE for anything
 * else. */
MUST_CHECK enum status launch_hosts_parse(struct launch_hosts *hosts, const char *list);

/* Adds the hosts of a file, one a line, in the ways of Open MPI ("h1 slots=4"), of MPICH ("h1:4")
 * and of batch systems (a line for each slot); '#' begins a comment. STATUS_USAGE with the line's
 * number for anything else, and for a file that names none. */
MUST_CHECK enum status launch_hosts_read(struct launch_hosts *hosts, const char *path);

/* Ranks that all take together, and the most that one does; 0 where there are no hosts. */
int launch_hosts_slots(const struct launch_hosts *hosts);
int launch_hosts_most(const struct launch_hosts *hosts);

/* Appends "h1:4,h2:4", or with `names_only` "h1,h2", as one word. */
MUST_CHECK enum status launch_hosts_word(const struct launch_hosts *hosts, bool names_only,
                                         struct words *w);

void launch_hosts_free(struct launch_hosts *hosts);
#endif
