/* The table of the CPU backend. */
#include "kernels/cpu/cpu.h"

const struct backend backend_cpu = {.name = "cpu"};
