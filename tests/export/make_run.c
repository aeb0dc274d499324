/* Lets shell tests call made_run_write. Argument: the folder, which must exist. */
#include "made_run.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 2 || made_run_write(argv[1]) != STATUS_OK) {
        fprintf(stderr, "%s\n", argc == 2 ? status_message() : "usage: export_made_run DIR");
        return 1;
    }
    return 0;
}
