/* The hosts of a job and how many ranks each runs, from the command line or from a file. */
#pragma once

#include "base/status.h"
#include "base/words.h"

#include <stdbool.h>

enum { HOST_NAME_SIZE = 256, HOST_SLOTS_MAX = 65536 };

/* The variable that lists a launch's hosts for its ranks: "h1:4,h2:4". */
#define LAUNCH_HOSTS_VARIABLE "AMPSCALE_HOSTS"

struct launch_host {
    char name[HOST_NAME_SIZE];
    int slots; /* ranks that it runs */
};

/* Initialised as {0}. The slots of a host that is listed several times are added. */
struct launch_hosts {
    struct launch_host *v; /* (n) */
    int n;
};

/* Adds the hosts of "h1:4,h2:4"; a host without a number has one slot. STATUS_USAGE for any other
 * text. */
MUST_CHECK enum status launch_hosts_parse(struct launch_hosts *hosts, const char *list);

/* Adds the hosts of a file, one a line, in the formats of Open MPI ("h1 slots=4"), of MPICH
 * ("h1:4") and of batch systems (a line for each slot); '#' begins a comment. STATUS_USAGE, with
 * the line's number, for any other line, and for a file without hosts. */
MUST_CHECK enum status launch_hosts_read(struct launch_hosts *hosts, const char *path);

/* The sum of all hosts' slots, and the largest number of slots of one host; both are 0 without
 * hosts. */
int launch_hosts_slots(const struct launch_hosts *hosts);
int launch_hosts_most(const struct launch_hosts *hosts);

/* Appends "h1:4,h2:4", or with `names_only` "h1,h2", as one word. */
MUST_CHECK enum status launch_hosts_word(const struct launch_hosts *hosts, bool names_only,
                                         struct words *w);

/* Appends the program and arguments that run `command` on a host by ssh, without questions, or by a
 * shell if the name is this machine's. `seconds`: time limit to connect. */
MUST_CHECK enum status launch_host_command(const char *host, int seconds,
                                           const struct words *command, struct words *w);

void launch_hosts_free(struct launch_hosts *hosts);
