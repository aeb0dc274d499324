/* What two runs must have in common to be compared: build, configuration, device, libraries, host.
 *
 * Left out is what is meant to differ between repeats and versions: the seed, the program's version
 * and commit, names of hosts, jobs and boards, and where the data lies (the folder's own name
 * stays). Images that a run left out (images_left_out, where there are any) must be as many in the
 * other. Sizes of memory agree within 1 %: a kernel keeps more or less of it for itself. */
#ifndef COMPARE_FINGERPRINT_H
#define COMPARE_FINGERPRINT_H

#include "results/run.h"

/* A new object {"config.batch_size": 32, ...}, of which no value is an object or an array unless
 * it is empty or nested deeper than any run's. The caller owns it. */
MUST_CHECK enum status fingerprint_of(const struct run *run, json_t **out);

/* Adds {field: {"base", "new"}} to the object `differences` for each field in which the two differ
 * and that is neither there yet nor among `allowed`: names of fields, or what they begin with
 * before a dot. All is text fit to be shown; a value is "absent" where a side has none. */
MUST_CHECK enum status fingerprint_differ(json_t *base, json_t *new, char *const *allowed,
                                          int n_allowed, json_t *differences);

/* Whether two agree in all but what is `allowed`. */
MUST_CHECK enum status fingerprint_agrees(json_t *a, json_t *b, char *const *allowed, int n_allowed,
                                          bool *same);

/* "resnet18 fp32 nd", as the configuration says; "runs" where it says nothing, or is NULL. */
void fingerprint_name(const json_t *fingerprint, char *out, size_t size);

/* Adds to the object `told` {field: its value in `a`, fit to be shown, or null} for one field by
 * which the two can be told apart, unless one that is there already does it. Of several it is one
 * of the configuration, then of the device, the libraries, the build, the host. */
MUST_CHECK enum status fingerprint_tell_apart(json_t *a, json_t *b, json_t *told);

/* Adds what is told to a name: "resnet18 fp32 nd (batch_size 32, no inject)". Names of
 * configurations that were told apart from each other differ, where `size` suffices. */
void fingerprint_name_apart(const json_t *told, char *name, size_t size);
#endif
