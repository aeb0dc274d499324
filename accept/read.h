/* Inside accept/: reading what the commands of checks leave. All as struct accept_kind's `read`. */
#ifndef ACCEPT_READ_H
#define ACCEPT_READ_H

#include "accept/result.h"

/* A member that is a number; NAN for anything else. */
double accept_read_number(const json_t *object, const char *key);

/* From JSON that the command printed. */
MUST_CHECK enum status accept_read_facts(const struct accept_spec *spec,
                                         const struct accept_check *check, const json_t *output,
                                         const char *dir, struct accept_result *r);
MUST_CHECK enum status accept_read_selftest(const struct accept_spec *spec,
                                            const struct accept_check *check, const json_t *output,
                                            const char *dir, struct accept_result *r);
MUST_CHECK enum status accept_read_determinism(const struct accept_spec *spec,
                                               const struct accept_check *check,
                                               const json_t *output, const char *dir,
                                               struct accept_result *r);
MUST_CHECK enum status accept_read_gemm(const struct accept_spec *spec,
                                        const struct accept_check *check, const json_t *output,
                                        const char *dir, struct accept_result *r);
MUST_CHECK enum status accept_read_peak(const struct accept_spec *spec,
                                        const struct accept_check *check, const json_t *output,
                                        const char *dir, struct accept_result *r);
MUST_CHECK enum status accept_read_memory(const struct accept_spec *spec,
                                          const struct accept_check *check, const json_t *output,
                                          const char *dir, struct accept_result *r);
MUST_CHECK enum status accept_read_optimizer(const struct accept_spec *spec,
                                             const struct accept_check *check, const json_t *output,
                                             const char *dir, struct accept_result *r);
MUST_CHECK enum status accept_read_input(const struct accept_spec *spec,
                                         const struct accept_check *check, const json_t *output,
                                         const char *dir, struct accept_result *r);
MUST_CHECK enum status accept_read_conv(const struct accept_spec *spec,
                                        const struct accept_check *check, const json_t *output,
                                        const char *dir, struct accept_result *r);
MUST_CHECK enum status accept_read_collective(const struct accept_spec *spec,
                                              const struct accept_check *check,
                                              const json_t *output, const char *dir,
                                              struct accept_result *r);

/* From the run's folder, <dir>/run (read_run.c):
 *   images_per_s, step_s   medians over the steps, the first ten left out
 *   images_per_s_per_device  that, over the number of devices
 *   loss                   of the last step
 *   loss_bits              a hash over every step's loss: the same where all losses are
 *   temperature_c, power_w, memory_gib    the highest of any device
 *   clock_mhz              the lowest of the devices' medians
 *   ecc_corrected, ecc_uncorrected        how many came meanwhile, over all devices
 *   throttled_<reason>     percent of the samples, the highest of any device; reasons are
 *                          results/sensors.h's, with '_' for a space
 * A sensor that a device lacks, or whose samples are of fewer devices than ran, is not measured. */
MUST_CHECK enum status accept_read_train(const struct accept_spec *spec,
                                         const struct accept_check *check, const json_t *output,
                                         const char *dir, struct accept_result *r);

#endif
