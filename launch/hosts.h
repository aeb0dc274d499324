/* The hosts of a job, and each host's number of ranks, from the command line or from a file. */
#pragma once

#include "base/status.h"
#include "base/words.h"

#include <stdbool.h>

enum { HOST_NAME_SIZE = 256, HOST_SLOTS_MAX = 65536 };

/* The environment variable in which `launch` lists the job's hosts for the ranks: "h1:4,h2:4". */
#define LAUNCH_HOSTS_VARIABLE "AMPSCALE_HOSTS"

struct launch_host {
    char name[HOST_NAME_SIZE]; /* a name, or an address; an IPv6 address has no brackets here */
    int slots;                 /* number of ranks that the host runs */
};

/* Initialised as {0}. The slots of a host that is listed several times are added. */
struct launch_hosts {
    struct launch_host *v; /* (n) */
    int n;
};

/* Add the hosts of a list such as "h1:4,h2:4,[fd00::1]:2" (a host without a number has one slot),
 * or of a file with one host per line, in the formats of Open MPI ("h1 slots=4"), MPICH ("h1:4")
 * and batch systems (one line per slot); '#' begins a comment. STATUS_USAGE for another form, which
 * the message quotes, and for a file without hosts. */
MUST_CHECK enum status launch_hosts_parse(struct launch_hosts *hosts, const char *list);
MUST_CHECK enum status launch_hosts_read(struct launch_hosts *hosts, const char *path);

/* The sum of all hosts' slots; *most is the largest number of slots of one host. Both are 0 if
 * there are no hosts. */
int launch_hosts_slots(const struct launch_hosts *hosts, int *most);

/* Appends "h1:4,h2:4", or with `names_only` "h1,h2", as one word. */
MUST_CHECK enum status launch_hosts_word(const struct launch_hosts *hosts, bool names_only,
                                         struct words *w);

void launch_hosts_free(struct launch_hosts *hosts);
