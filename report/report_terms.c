/* Explains the terms of a report. */
#include "report/report_sections.h"

void section_terms(struct writer *w)
{
    static const char *const terms[] = {
        "Cell: a configuration that the study ran several times. Its name has the mode, precision, "
        "network, data, scaling, and devices x images per device.",
        "nd: one device. dp: several devices in one process, as PyTorch's DataParallel. ddp: a "
        "process for each device, as DistributedDataParallel. ddp2: several processes, each with "
        "several devices.",
        "fp32, tf32, bf16, amp: train's --precision. O0 to O3: Apex's optimization levels. "
        "Emulated: the processor lacks the type, which is computed in fp32 and rounded: the "
        "accuracy "
        "is that of the type, the speed is not.",
        "Synthetic data: random tensors, which are not read or decoded.",
        "Weak scaling: a fixed batch per device. Strong scaling: a fixed batch in total.",
        "Speed-up: images/s divided by those of the first cell of the series, on one device. "
        "Efficiency: the speed-up divided by the number of devices.",
        "Interval: the 95 % bootstrap interval of a median, or of a ratio of two medians, over "
        "the runs of the cells.",
        "A verdict names the largest part of a loss. compute-bound: no loss, and computing takes "
        "most of a step. loader-bound: slower than the same cell on synthetic data. "
        "communication-bound: slower per device than one device, because communication is "
        "exposed. shared hardware: because the devices share cores, memory or power. too noisy to "
        "say: the interval includes no loss and a large one. disturbed: other work took the "
        "processors in at least half of the runs; repeat on an idle machine.",
    };
    struct table items = {0};
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        table_add(&items, "%s", terms[i]);
    writer_fold(w, "Terms");
    writer_list(w, &items);
    writer_fold_end(w);
}
