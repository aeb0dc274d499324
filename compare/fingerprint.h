/* The fields in which two runs must agree to be compared: build, configuration, device, libraries,
 * host.
 *
 * Fields that may differ between repeats and versions are left out: the seed, the program's version
 * and commit, names of hosts, jobs and boards, and the path of the data except for its last folder.
 * Both runs must have left out the same number of images (images_left_out, absent if 0). Memory
 * sizes agree within 1 %, because the kernel's own share of the memory varies. */
#pragma once

#include "results/run.h"

/* Makes a new object {"config.batch_size": 32, ...}, which the caller owns. A value is an object or
 * an array only if it is empty, or nested deeper than the record of any run. */
MUST_CHECK enum status fingerprint_of(const struct run *run, json_t **out);

/* Adds {field: {"base", "new"}} to the object `differences` for each field in which the two
 * fingerprints differ, unless the object has the field, or `allowed` has the field or a prefix of
 * it that ends before a dot. All texts are cleaned for display; "absent": the side lacks the
 * field. */
MUST_CHECK enum status fingerprint_differ(json_t *base, json_t *new, const char *const *allowed,
                                          int n_allowed, json_t *differences);

/* Whether two fingerprints agree in all fields that are not in `allowed`. */
MUST_CHECK enum status fingerprint_agrees(json_t *a, json_t *b, const char *const *allowed,
                                          int n_allowed, bool *same);

/* "resnet18 fp32 nd", from the configuration; "runs" if it has none of these, or is NULL. */
void fingerprint_name(const json_t *fingerprint, char *out, size_t size);

/* Adds {field: its value in `a` as text, or null} to the object `distinct` for one field in which
 * the two fingerprints differ, unless they differ in a field that the object has. A field of the
 * configuration is preferred, then one of the device, the libraries, the build, the host. */
MUST_CHECK enum status fingerprint_distinguish(json_t *a, json_t *b, json_t *distinct);

/* Adds the distinct fields to a name: "resnet18 fp32 nd (batch_size 32, no inject)", so that the
 * names of distinguished configurations differ, if `size` suffices. */
void fingerprint_name_apart(const json_t *distinct, char *name, size_t size);
