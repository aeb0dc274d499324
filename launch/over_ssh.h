/* Inside launch/: the lines that the launcher and the process that it starts on a host by ssh send
 * to each other (hosts_start.c, node.c). */
#pragma once

#include <stdbool.h>

enum { OVER_SSH_LINE_MAX = 65536 };

#define OVER_SSH_READY "ampscale node is ready" /* from the host */
#define OVER_SSH_STOP  "stop"                   /* to the host */

/* To the host: its first rank, the world size, and HOST:PORT of rank 0; for printf. */
#define OVER_SSH_START "start %d %d %s"
#define OVER_SSH_PLACE "start %d %d %319s" /* the same for sscanf */

/* Reads a line without its newline, byte by byte, so that no later byte is read. False: the end,
 * or a line that is too long. */
bool over_ssh_line(int fd, char line[OVER_SSH_LINE_MAX]);
