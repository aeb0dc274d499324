/* What a loader is asked for: what is left open, and what cannot be. */
#ifndef INPUT_LOADER_CONFIG_H
#define INPUT_LOADER_CONFIG_H

#include "input/loader.h"

/* The same with torchvision's recipe in the place of zeros: crops of 8 % to 100 % of the area, of
 * 3:4 to 4:3, and 256 pixels of resize to 224 of image. */
struct loader_config loader_config_fill(struct loader_config c);

/* STATUS_USAGE names what a user may put right, STATUS_INVALID is a mistake of the caller. */
MUST_CHECK enum status loader_config_check(const struct loader_config *c);
#endif
