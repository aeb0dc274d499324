/* The fields in which two runs must agree to be compared: build, configuration, device, libraries,
 * host.
 *
 * Fields that may differ between repeats and versions are left out: the seed, the program's version
 * and commit, names of hosts, jobs and boards, and the path of the data except for its last folder.
 * Both runs must have left out the same number of images (images_left_out, absent if 0). Memory
 * sizes may differ by 1 %, because the kernel's own share of the memory varies. */
#pragma once

#include "results/run.h"

/* Makes a new object {"config.batch_size": 32, ...}, which the caller owns. A value is an object or
 * an array only if it is empty, or if it is nested deeper than in the record of any run. */
MUST_CHECK enum status fingerprint_of(const struct run *run, json_t **out);

/* Adds {field: {"base", "new"}} to the object `differences` for each field in which the two
 * fingerprints differ. Skips a field that the object already has. Also skips a field if `allowed`
 * has its name, or a leading part of its name: "config" stands for all fields "config.*". All texts
 * are cleaned for display; "absent" means that the side lacks the field. */
void fingerprint_differ(json_t *base, json_t *new, const char *const *allowed, int n_allowed,
                        json_t *differences);

/* Whether two fingerprints agree in all fields that are not in `allowed`. */
bool fingerprint_agrees(json_t *a, json_t *b, const char *const *allowed, int n_allowed);

/* Makes a name such as "resnet18 fp32 nd" from fields of the configuration. The name is "runs" if
 * the fingerprint is NULL or lacks all of these fields. */
void fingerprint_name(const json_t *fingerprint, char *out, size_t size);

/* Chooses one field, not in `allowed`, in which the two fingerprints differ, and adds {field: its
 * value in `a` as text, or null} to the object `distinct`. Does nothing if the fingerprints already
 * differ in a field of `distinct`. Prefers fields of the configuration, then fields of the device,
 * the libraries, the build and the host. */
void fingerprint_distinguish(json_t *a, json_t *b, const char *const *allowed, int n_allowed,
                             json_t *distinct);

/* Adds the distinct fields to a name: "resnet18 fp32 nd (batch_size 32, no inject)". So the names
 * of distinguished configurations differ, unless they are cut because they are too long. */
void fingerprint_name_apart(const json_t *distinct, char *name, size_t size);
