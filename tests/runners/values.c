#include "values.h"

#include <inttypes.h>

void values_print(const struct run *run, FILE *out)
{
    for (int64_t i = 0; i < run->n_steps; i++) {
        const struct step_record *s = &run->step[i];
        fprintf(out,
                "step %" PRId64 " epoch %" PRId64 " batch %" PRId64 " images %" PRId64
                " loss %.17g top1 %.17g top5 %.17g lr %.17g scale %.17g clean %" PRId64
                " skipped %" PRId64 " bytes %" PRId64 " bad %" PRId64 "\n",
                s->step, s->epoch, s->batch, s->images, s->loss, s->top1, s->top5, s->lr,
                s->loss_scale, s->clean, s->skipped, s->bytes_read, s->bad_images);
    }
    for (int64_t i = 0; i < run->n_epochs; i++) {
        const struct epoch_record *e = &run->epoch[i];
        fprintf(out,
                "epoch %" PRId64 " steps %" PRId64 " lr %.17g train %" PRId64
                " %.17g %.17g %.17g val %" PRId64 " %.17g %.17g %.17g best %.17g scale %.17g"
                " clean %" PRId64 " skipped %" PRId64 " bad %" PRId64 "\n",
                e->epoch, e->steps, e->lr, e->train_images, e->train_loss, e->train_top1,
                e->train_top5, e->val_images, e->val_loss, e->val_top1, e->val_top5, e->best_top1,
                e->loss_scale, e->clean, e->skipped, e->bad_images);
    }
    fprintf(out, "%s\n", run->summary ? "completed" : "incomplete");
}
