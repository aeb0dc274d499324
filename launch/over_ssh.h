/* Inside launch/: the lines that two processes send to each other: the launcher (hosts_start.c),
 * and the process that it starts on a host by ssh (node.c). */
#pragma once

#include <stdbool.h>

enum { OVER_SSH_LINE_MAX = 65536 };

#define OVER_SSH_READY "ampscale node is ready" /* from the host */
#define OVER_SSH_STOP  "stop"                   /* to the host */

/* The line that starts the ranks of a host, as a format for printf: the host's first rank, the
 * world size, and HOST:PORT of rank 0. */
#define OVER_SSH_START "start %d %d %s"
#define OVER_SSH_PLACE "start %d %d %319s" /* the same format for sscanf */

/* Reads a line and removes its newline. Reads byte by byte, because it must not read bytes after
 * the newline. False: the input has ended, or the line is too long. */
bool over_ssh_line(int fd, char line[OVER_SSH_LINE_MAX]);
