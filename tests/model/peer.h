/* Finds a Python interpreter with the libraries with which tests compare files and networks. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* Returns the first interpreter that imports `module`. If there is none, prints so and returns
 * NULL. `scripts/setup --peers` installs the first of the three candidates. */
static inline const char *peer_python(const char *module)
{
    static const char *const pythons[] = {AMPSCALE_SOURCE_DIR "/build/peers/bin/python3", "python3",
                                          "/usr/bin/python3"};
    for (size_t i = 0; i < sizeof pythons / sizeof *pythons; i++) {
        char command[4200];
        snprintf(command, sizeof command, "'%s' -c 'import %s' >/dev/null 2>&1", pythons[i],
                 module);
        if (system(command) == 0)
            return pythons[i];
    }
    printf("no Python has %s; run scripts/setup --peers\n", module);
    return NULL;
}
