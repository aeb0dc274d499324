/* Inside comm/: a file on storage that all ranks share, in which rank 0 writes its address
 * (PyTorch's file:// method). */
#pragma once

#include "base/status.h"

enum { RENDEZVOUS_ADDRESS_MAX = 320 };

/* The path in "file://PATH"; NULL for any other text. */
const char *rendezvous_file_path(const char *text);

/* For rank 0: chooses a port of this host that no process uses, and writes HOST:PORT to the file
 * and to `address`. STATUS_USAGE: the file exists already, because an earlier job did not remove
 * it. */
MUST_CHECK enum status rendezvous_file_write(const char *path,
                                             char address[RENDEZVOUS_ADDRESS_MAX]);

/* For other ranks: waits until the file exists, at most timeout_s (0: indefinitely). */
MUST_CHECK enum status rendezvous_file_read(const char *path, double timeout_s,
                                            char address[RENDEZVOUS_ADDRESS_MAX]);

/* Removes the file. If that fails, the next job reports that the file exists. */
void rendezvous_file_remove(const char *path);
