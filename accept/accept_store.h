/* Inside accept/: the folder of a node (accept_result.h). One process at a time works in it. */
#pragma once

#include "accept/accept_spec.h"

struct accept_store {
    const char *dir;
    int lock; /* inherited by child processes; the owner of the store closes it */
};

/* Opens the folder, which is made if it is missing. Writes the spec and the node's name into it,
 * and removes the accept.json of an earlier test suite. STATUS_USAGE if the folder holds results of
 * another spec or node, or if it holds any results and `resume` is false; STATUS_IO if another
 * process works in the folder, after a wait of 20 seconds. The commands of checks count too: if an
 * earlier call was killed, they write into the folder until they have ended. */
MUST_CHECK enum status accept_store_open(const struct accept_spec *spec, const char *node,
                                         const char *dir, bool resume, struct accept_store *store);

/* Reads a check's measurements so far, and sets *whole to whether the check has ended. The result
 * is zeroed if the file is missing or cannot be read. */
MUST_CHECK enum status accept_store_read(const struct accept_store *store, const char *check,
                                         struct accept_result *r, bool *whole);

/* Whether the check has ended, and could be measured. */
bool accept_store_has(const struct accept_store *store, const char *check);

/* Writes a check's measurements; `whole`: the check has ended. */
MUST_CHECK enum status accept_store_write(const struct accept_store *store,
                                          const struct accept_result *r, bool whole);

/* Removes the file of partial measurements of a check that has ended. Such a file exists if
 * `ampscale accept` was killed between writing the check's result and removing the file. */
MUST_CHECK enum status accept_store_drop_part(const struct accept_store *store, const char *check);

/* Writes the path of the folder of repeat number `repeat` to `dir`. */
MUST_CHECK enum status accept_store_repeat_path(const struct accept_store *store, const char *check,
                                                int repeat, char dir[ACCEPT_PATH_SIZE]);

/* Read an object from the folder of a repeat: the record that a command of this kind keeps in its
 * folder "work"; and what the command printed or, if it printed nothing, because it was killed,
 * that record: *partial is then true. */
MUST_CHECK enum status accept_store_record(const struct accept_kind *kind, const char *dir,
                                           json_t **record);
MUST_CHECK enum status accept_store_output(const struct accept_kind *kind, const char *dir,
                                           json_t **output, bool *partial);
