/* Writes the settings of a run that affect its results. */
#include "results/run_key.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>

void run_key(const struct run *run, char *out, size_t size)
{
    static const char *const setting[][2] = {{"arch", ""},
                                             {"precision", ""},
                                             {"emulated", ""},
                                             {"batch_size", ""},
                                             {"image_size", ""},
                                             {"val_resize", ""},
                                             {"interpolation", "\"bilinear\""},
                                             {"decode", "\"fast\""},
                                             {"epochs", ""},
                                             {"steps", ""},
                                             {"lr", ""},
                                             {"lr_schedule", ""},
                                             {"momentum", ""},
                                             {"classes", ""},
                                             {"weight_decay", ""},
                                             {"warmup_epochs", ""},
                                             {"label_smoothing", ""},
                                             {"mixup", ""},
                                             {"mode", "\"nd\""},
                                             {"world_size", "1"},
                                             {"devices_per_rank", "1"},
                                             {"accumulate", "1"},
                                             {"sync_bn", "false"},
                                             {"lars", "0.0"},
                                             {"lr_scale", "\"none\""},
                                             {"grad_compress", "\"fp32\""}};
    snprintf(out, size, "%" PRId64, run->n_epochs ? run->epoch[0].train_images : 0);
    for (size_t i = 0; i < sizeof setting / sizeof *setting; i++) {
        char *text = json_dumps(run_config(run, setting[i][0]), JSON_ENCODE_ANY);
        text_append(out, size, " %s", text ? text : setting[i][1]);
        free(text);
    }
}
