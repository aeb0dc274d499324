/* The specs that come with the program: specs/NAME.json, compiled in. */
#include "accept/spec.h"

#include <string.h>

extern const unsigned char accept_cpu_json[], accept_h200_json[], accept_a100_json[],
    accept_v100_json[], accept_bring_up_json[], accept_bring_up_quick_json[];

const char *const accept_presets[] = {"cpu",      "h200",           "a100", "v100",
                                      "bring-up", "bring-up-quick", NULL};

const char *accept_preset(const char *name)
{
    const unsigned char *const text[] = {accept_cpu_json,      accept_h200_json,
                                         accept_a100_json,     accept_v100_json,
                                         accept_bring_up_json, accept_bring_up_quick_json};
    for (int i = 0; accept_presets[i]; i++)
        if (strcmp(accept_presets[i], name) == 0)
            return (const char *)text[i];
    return NULL;
}
