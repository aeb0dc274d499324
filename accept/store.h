/* Inside accept/: the folder of a node (result.h). One process at a time works in it. */
#ifndef ACCEPT_STORE_H
#define ACCEPT_STORE_H

#include "accept/result.h"

struct accept_store {
    const char *dir;
    int lock;
};

/* Opens the folder, made if need be, and keeps the spec in it; an earlier battery's accept.json is
 * removed. STATUS_USAGE when it holds another spec's results, or any and `resume` is false;
 * STATUS_IO while another process works in it. */
MUST_CHECK enum status accept_store_open(const struct accept_spec *spec, const char *dir,
                                         bool resume, struct accept_store *store);
void accept_store_close(struct accept_store *store); /* fine on one that failed to open */

/* What a check has measured so far: *whole says that it has ended. A zeroed result where there is
 * nothing, or nothing that can be read. */
MUST_CHECK enum status accept_store_read(const struct accept_store *store, const char *check,
                                         struct accept_result *r, bool *whole);

/* Whether the check has ended, and could be measured. */
bool accept_store_has(const struct accept_store *store, const char *check);

/* Keeps it; `whole`: the check has ended. */
MUST_CHECK enum status accept_store_write(const struct accept_store *store,
                                          const struct accept_result *r, bool whole);

/* The folder of a repeat, from 1, empty: what an earlier attempt left is removed. */
MUST_CHECK enum status accept_store_repeat(const struct accept_store *store, const char *check,
                                           int repeat, char dir[ACCEPT_PATH_SIZE]);

#endif
