/* The table of the reference backend. */
#include "kernels/ref/ref.h"

const struct backend backend_ref = {.name = "ref"};
