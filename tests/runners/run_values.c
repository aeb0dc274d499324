/* Prints the values of a run (values.h), for tests that compare runs. */
#include "values.h"

int main(int argc, char **argv)
{
    struct run *run;
    if (argc != 2) {
        fputs("usage: run_values DIR\n", stderr);
        return 2;
    }
    enum status st = run_load(argv[1], &run);
    if (st != STATUS_OK) {
        fprintf(stderr, "%s\n", status_message());
        return status_exit_code(st);
    }
    values_print(run, stdout);
    run_free(run);
    return 0;
}
