/* The hosts of a job, and each host's number of ranks, from the command line or from a file. */
#pragma once

#include "base/status.h"
#include "base/words.h"

#include <stdbool.h>

enum { HOST_NAME_SIZE = 256, HOST_SLOTS_MAX = 65536 };

/* The environment variable in which `launch` lists the job's hosts for the ranks: "h1:4,h2:4". */
#define LAUNCH_HOSTS_VARIABLE "AMPSCALE_HOSTS"

struct launch_host {
    char name[HOST_NAME_SIZE];
    int slots; /* number of ranks that the host runs */
};

/* Initialised as {0}. The slots of a host that is listed several times are added. */
struct launch_hosts {
    struct launch_host *v; /* (n) */
    int n;
};

/* Adds the hosts of a list such as "h1:4,h2:4"; a host without a number has one slot. STATUS_USAGE
 * for a text of another form. */
MUST_CHECK enum status launch_hosts_parse(struct launch_hosts *hosts, const char *list);

/* Adds the hosts of a file, which has one host per line, in the formats of Open MPI ("h1 slots=4"),
 * MPICH ("h1:4") and batch systems (one line per slot); '#' begins a comment. A line of another
 * form is STATUS_USAGE, and the message names the line's number. A file without hosts is
 * STATUS_USAGE. */
MUST_CHECK enum status launch_hosts_read(struct launch_hosts *hosts, const char *path);

/* launch_hosts_slots returns the sum of all hosts' slots, and launch_hosts_most the largest number
 * of slots of one host; both return 0 if there are no hosts. */
int launch_hosts_slots(const struct launch_hosts *hosts);
int launch_hosts_most(const struct launch_hosts *hosts);

/* Appends "h1:4,h2:4", or with `names_only` "h1,h2", as one word. */
MUST_CHECK enum status launch_hosts_word(const struct launch_hosts *hosts, bool names_only,
                                         struct words *w);

/* Appends the program and arguments that run `command` on a host: ssh in batch mode, which asks no
 * questions. If `host` is this machine, a shell replaces ssh. `seconds`: time limit to connect. */
MUST_CHECK enum status launch_host_command(const char *host, int seconds,
                                           const struct words *command, struct words *w);

void launch_hosts_free(struct launch_hosts *hosts);
