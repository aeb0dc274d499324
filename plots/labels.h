/* Names for runs in legends. For plots/ alone. */
#ifndef PLOTS_LABELS_H
#define PLOTS_LABELS_H

#include "plots/figure.h"

/* label[i] = "resnet50 bf16 b32 · folder" from the run's configuration, cut to fit, with a number
 * behind those that would be the same. */
void labels_make(const struct run *const *run, int n, char (*label)[FIGURE_LABEL_MAX]);

#endif
