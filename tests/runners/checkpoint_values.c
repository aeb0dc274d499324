/* Prints the contents of a checkpoint, for tests that compare two checkpoints: a line for each
 * tensor, with its name and a hash of its bytes, and a line for the loss scaler. */
#include "base/rng.h"
#include "model/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t hash_of(const struct safetensors_entry *e)
{
    const unsigned char *byte = e->data;
    uint64_t hash = e->bytes;
    for (size_t i = 0; i < e->bytes; i++)
        hash = hash_splitmix64(hash ^ byte[i]);
    return hash;
}

static double number(const struct safetensors *f, const char *key)
{
    const char *text = safetensors_metadata(f, key);
    return text ? strtod(text, NULL) : -1;
}

int main(int argc, char **argv)
{
    struct safetensors *f;
    if (argc != 2) {
        fputs("usage: checkpoint_values FILE\n", stderr);
        return 2;
    }
    enum status st = safetensors_open(argv[1], &f);
    if (st != STATUS_OK) {
        fprintf(stderr, "%s\n", status_message());
        return status_exit_code(st);
    }
    for (size_t i = 0; i < safetensors_count(f); i++)
        printf("tensor %s %016" PRIx64 "\n", safetensors_at(f, i)->name,
               hash_of(safetensors_at(f, i)));
    printf("scaler scale %g clean %g skipped %g\n", number(f, "loss_scale"),
           number(f, "loss_scale_clean"), number(f, "skipped_steps"));
    safetensors_close(f);
    return 0;
}
