/* A stand-in for the CUDA driver, with the functions that telemetry calls. CUDA's device 0 is the
 * second GPU on the bus. */
#include <stdio.h>

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* found by name */

int cuInit(unsigned flags)
{
    return flags == 0 ? 0 : 1;
}

int cuDeviceGet(int *device, int index)
{
    *device = index + 7;
    return index < 2 ? 0 : 101;
}

int cuDeviceGetPCIBusId(char *bus, int size, int device)
{
    snprintf(bus, (size_t)size, "0000:%02x:00.0", 2 - (device - 7));
    return 0;
}
