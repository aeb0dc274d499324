/* Lets shell tests call run_rig_write. Argument: the folder, which must exist. */
#include "../results/run_rig.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc == 2)
        run_rig_write(argv[1]);
    else
        fprintf(stderr, "usage: export_made_run DIR\n");
    return argc != 2;
}
