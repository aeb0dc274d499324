/* The studies that come with the program: presets/NAME.json, compiled in. */
#include "study/spec.h"

#include <string.h>

extern const unsigned char study_quick_json[], study_hal_json[];

const char *const study_presets[] = {"quick", "hal", NULL};

const char *study_preset(const char *name)
{
    const unsigned char *const text[] = {study_quick_json, study_hal_json};
    for (int i = 0; study_presets[i]; i++)
        if (strcmp(study_presets[i], name) == 0)
            return (const char *)text[i];
    return NULL;
}
