/* Writes and reads the file by which ranks find each other. */
#include "comm/rendezvous_file.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/host.h"
#include "base/stop.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POLL_MS = 100 };

const char *rendezvous_file_path(const char *text)
{
    static const char mark[] = "file://";
    return text && strncmp(text, mark, sizeof mark - 1) == 0 ? text + sizeof mark - 1 : NULL;
}

enum status rendezvous_file_write(const char *path, char address[RENDEZVOUS_ADDRESS_MAX])
{
    char host[256] = "";
    int port;
    if (path_exists(path))
        return status_fail(
            STATUS_USAGE,
            "--rendezvous 'file://%s': the file exists; remove it or give another name: "
            "each job needs a new file",
            path);
    if (gethostname(host, sizeof host - 1) != 0)
        return status_fail(STATUS_IO, "cannot read this host's name: %s", strerror(errno));
    TRY(host_free_port(false, &port));
    snprintf(address, RENDEZVOUS_ADDRESS_MAX, "%s:%d", host, port);
    return file_replace(path, address, strlen(address));
}

/* Does not check whether the file is complete, because rank 0 gives the file this name only when it
 * is complete. */
enum status rendezvous_file_read(const char *path, double timeout_s,
                                 char address[RENDEZVOUS_ADDRESS_MAX])
{
    uint64_t end = clock_ns() + (uint64_t)(timeout_s * 1e9);
    char *bytes;
    size_t size;
    while (!path_exists(path)) {
        TRY(stop_check());
        if (timeout_s > 0 && clock_ns() >= end)
            return status_fail(
                STATUS_LIBRARY,
                "--rendezvous 'file://%s': rank 0 has not written the file within %g s", path,
                timeout_s);
        poll(NULL, 0, POLL_MS);
    }
    TRY(file_read(path, RENDEZVOUS_ADDRESS_MAX - 1, &bytes, &size));
    snprintf(address, RENDEZVOUS_ADDRESS_MAX, "%.*s", (int)size, bytes);
    free(bytes);
    return STATUS_OK;
}

void rendezvous_file_remove(const char *path)
{
    unlink(path);
}
